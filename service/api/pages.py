"""Pages of lists, and the links from page to page (RFC 8288)."""

from collections.abc import Callable
from typing import Protocol, TypeAlias
from urllib.parse import parse_qsl, urlencode

from service.api.answers import json_answer
from service.api.contract import ApiRequest, ApiResponse
from service.api.list_queries import PageQuery, bounded
from service.api.transactions import read
from service.db.engine import Connection


class Page(Protocol):
    """A document that is one page of a list."""

    @property
    def next_page_token(self) -> str | None:
        """Where the list goes on; None on the last page."""


# Connection, page size, page token
ListUseCase: TypeAlias = Callable[[Connection, int, str | None], Page]


async def page_answer(request: ApiRequest, query: PageQuery, use_case: ListUseCase) -> ApiResponse:
    """Answer with the page that the query asks for, read by the use case on one snapshot."""
    page_size = bounded(request, query.page_size)
    page = await read(request, lambda c: use_case(c, page_size, query.page_token))
    return json_answer(page, headers=link_header(request, page.next_page_token))


def link_header(request: ApiRequest, next_page_token: str | None) -> dict[str, str]:
    """The Link header to the next page, same filters; empty on the last page."""
    if next_page_token is None:
        return {}
    query: bytes = request.scope["query_string"]
    kept = [pair for pair in parse_qsl(query.decode("ascii")) if pair[0] != "page_token"]
    return {
        "Link": f"<{request.url.path}?{urlencode([*kept, ('page_token', next_page_token)])}>; "
        'rel="next"'
    }
