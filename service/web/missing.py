"""The page that a browser is shown where there is none; programs get the problem document."""

from typing import Any, Final

from litestar import Request, Response
from litestar.datastructures import State

from service.web.pages import HTML, page_answer
from service.web.shell import Page

PAGE: Final = Page(name="missing", path="/", place="", words=("missing",))
# What programs ask for, and the files of pages
_NO_PAGES: Final = (
    *("v1", "docs", "assets", "problems", "metrics", "healthz", "readyz", "openapi.json"),
)


def wants_page(request: Request[Any, Any, State]) -> bool:
    """Whether a browser goes to an address that could be a page."""
    place = request.scope["path"].lstrip("/").partition("/")[0]
    is_read = request.scope["method"] == "GET"
    return is_read and place not in _NO_PAGES and HTML in request.headers.get("accept", "")


def missing_page(request: Request[Any, Any, State]) -> Response[bytes]:
    """Say so in the layout, in the reader's language."""
    return page_answer(PAGE, request, status=404)
