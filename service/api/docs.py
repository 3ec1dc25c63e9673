"""`/docs`: Swagger UI from files of this host only, under the strict content security policy.

The files come from the installed package `swagger-ui-py`, which is found but not imported: its
code is for other frameworks.
"""

import hashlib
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from litestar import get
from litestar.handlers import HTTPRouteHandler

from service.api.answers import raw_answer
from service.api.contract import ApiRequest, ApiResponse
from service.errors import NotFoundError

HTML: Final = "text/html"
MEDIA_TYPES: Final = {"js": "text/javascript", "css": "text/css"}
SWAGGER_FILES: Final = ("swagger-ui-bundle.js", "swagger-ui.css")
OWN_FILES: Final = ("docs.js",)

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Trainard API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{swagger-ui.css}">
</head>
<body>
<div id="docs"></div>
<noscript>
This page needs JavaScript; the description itself is <a href="/openapi.json">/openapi.json</a>.
</noscript>
<script src="{swagger-ui-bundle.js}"></script>
<script src="{docs.js}"></script>
</body>
</html>
"""


def swagger_folder() -> Path:
    """Where the installed package keeps Swagger UI's files."""
    found = find_spec("swagger_ui")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("swagger-ui-py is not installed: the docs page has no files")
    return Path(found.submodule_search_locations[0]) / "static"


@cache
def assets() -> dict[str, bytes]:
    """The files by their address, which holds a digest, so that browsers may keep them."""
    own = resources.files("service.api") / "assets"
    files = {name: (swagger_folder() / name).read_bytes() for name in SWAGGER_FILES}
    files |= {name: (own / name).read_bytes() for name in OWN_FILES}
    return {
        f"{hashlib.sha256(content).hexdigest()[:16]}/{name}": content
        for name, content in files.items()
    }


@cache
def page() -> bytes:
    """The HTML page with the addresses of its files."""
    html = _PAGE
    for address in assets():
        html = html.replace("{" + address.partition("/")[2] + "}", f"/docs/assets/{address}")
    return html.encode()


@get("/docs", name="docs", include_in_schema=False)
async def show_docs(request: ApiRequest) -> ApiResponse:  # noqa: ARG001 - the handlers' one signature
    """Answer with the docs page."""
    return raw_answer(page(), media_type=HTML)


@get("/docs/assets/{digest:str}/{name:str}", name="docs_asset", include_in_schema=False)
async def show_asset(request: ApiRequest) -> ApiResponse:
    """Answer with a file that never changes under its address."""
    address = f"{request.path_params['digest']}/{request.path_params['name']}"
    content = assets().get(address)
    if content is None:
        raise NotFoundError(f"there is no file {address}")
    return raw_answer(
        content,
        media_type=MEDIA_TYPES[address.rpartition(".")[2]],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


routes: list[HTTPRouteHandler] = [show_docs, show_asset]
