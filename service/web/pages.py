"""The routes of the pages and of their files. They hold nothing of anybody: no key is needed."""

from functools import partial
from typing import Any, Final

import anyio.to_thread
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from service.errors import NotFoundError
from service.web import assets, chart_files, columns, vega
from service.web.language import COOKIE, choose
from service.web.shell import Page, page_html

HTML: Final = "text/html"

PAGES: Final = (
    Page(name="simulator", path="/", place="simulator", words=("simulator", "scenario", "charts")),
    Page(name="batches", path="/batches", place="batches", words=("results", "profiles")),
    Page(
        name="batch",
        path="/batches/{batch_id:str}",
        place="batches",
        words=("results", "scenario", "profiles"),
    ),
    Page(
        name="results", path="/results", place="results", words=("results", "scenario", "profiles")
    ),
    Page(
        name="result",
        path="/results/{result_id:str}",
        place="results",
        words=("results", "scenario", "profiles", "charts"),
    ),
    Page(
        name="compare",
        path="/compare",
        place="compare",
        words=("compare", "results", "profiles", "charts"),
    ),
    Page(
        name="history",
        path="/history",
        place="history",
        words=("compare", "results", "profiles", "charts"),
    ),
    Page(name="profiles", path="/profiles", place="profiles", words=("profiles", "scenario")),
    Page(
        name="profile",
        path="/profiles/{slug:str}",
        place="profiles",
        words=("profiles", "scenario", "calibrations"),
    ),
    Page(
        name="calibrations",
        path="/calibrations",
        place="calibrations",
        words=("calibrations", "profiles", "charts", "scenario"),
    ),
    Page(
        name="calibration",
        path="/calibrations/{calibration_id:str}",
        place="calibrations",
        words=("calibrations", "profiles", "charts", "scenario"),
    ),
    Page(
        name="back_tests",
        path="/back-tests",
        place="calibrations",
        words=("calibrations", "profiles"),
    ),
    Page(name="rates", path="/rates", place="rates", words=("rates",)),
    Page(name="schedules", path="/schedules", place="schedules", words=("schedules",)),
    Page(
        name="schedule",
        path="/schedules/{slug:str}",
        place="schedules",
        words=("schedules", "reasons"),
        style="schedules",
    ),
    Page(name="reports", path="/reports", place="reports", words=("reports", "results")),
    Page(name="report", path="/reports/{report_id:str}", place="reports", words=("reports",)),
    Page(
        name="deliveries", path="/deliveries", place="deliveries", words=("deliveries", "reasons")
    ),
    Page(name="retention", path="/retention", place="retention", words=("retention",)),
    Page(name="inputs", path="/inputs", place="inputs", words=("inputs",)),
    Page(name="sign_in", path="/sign-in", place="", words=("sign_in",)),
)


def _route(page: Page) -> HTTPRouteHandler:
    async def show(request: Request[Any, Any, State]) -> Response[bytes]:
        return page_answer(page, request)

    return get(page.path, name=f"page_{page.name}", include_in_schema=False)(show)


def page_answer(
    page: Page, request: Request[Any, Any, State], *, status: int = 200
) -> Response[bytes]:
    """The page in the reader's language."""
    # Ready when the first chart is to be drawn
    vega.begin()
    choice = choose(
        request.query_params.get("lang"),
        request.cookies.get(COOKIE),
        request.headers.get("accept-language", ""),
    )
    headers = {
        "Content-Language": choice.language,
        "Vary": "Accept-Language, Cookie",
        **({"Set-Cookie": choice.cookie} if choice.is_asked_for else {}),
    }
    html = page_html(page, choice.language)
    return Response(html, status_code=status, media_type=HTML, headers=headers)


@get("/assets/{digest:str}/{name:str}", name="page_asset", include_in_schema=False)
async def show_file(request: Request[Any, Any, State]) -> Response[bytes]:
    """Answer with a file of the pages, which never changes under its address."""
    digest, name = request.path_params["digest"], request.path_params["name"]
    content = assets.static_files().get(name) if digest == assets.digest() else None
    if content is None:
        raise NotFoundError(f"there is no file {digest}/{name}")
    media_type = assets.MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(content, media_type=media_type, headers=assets.FOREVER)


@get("/assets/vega/{name:str}", name="page_vega", include_in_schema=False)
async def show_vega(request: Request[Any, Any, State]) -> Response[bytes]:
    """Answer with the chart library, once it is bundled."""
    name = request.path_params["name"]
    if name != f"{vega.tag()}.js":
        raise NotFoundError(f"there is no file vega/{name}")
    script = await anyio.to_thread.run_sync(partial(vega.begin().result, vega.SECONDS))
    return Response(script, media_type=assets.MEDIA_TYPES["js"], headers=assets.FOREVER)


@get("/assets/charts/{name:str}", name="page_charts", include_in_schema=False)
async def show_charts(request: Request[Any, Any, State]) -> Response[bytes]:
    """Answer with the charts of the pages, which have no data yet."""
    name = request.path_params["name"]
    if name != f"{chart_files.digest()}.json":
        raise NotFoundError(f"there is no file charts/{name}")
    return Response(
        chart_files.content(), media_type=chart_files.MEDIA_TYPE, headers=assets.FOREVER
    )


@get("/assets/columns/{name:str}", name="page_columns", include_in_schema=False)
async def show_columns(request: Request[Any, Any, State]) -> Response[bytes]:
    """Answer with the output columns and their words in one language."""
    content = columns.content_at(request.url.path)
    if content is None:
        raise NotFoundError(f"there is no file columns/{request.path_params['name']}")
    return Response(content, media_type=columns.MEDIA_TYPE, headers=assets.FOREVER)


routes: list[HTTPRouteHandler] = [
    *map(_route, PAGES),
    show_vega,
    show_charts,
    show_columns,
    show_file,
]
