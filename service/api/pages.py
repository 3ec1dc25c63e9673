"""Links from page to page (RFC 8288)."""

from urllib.parse import parse_qsl, urlencode

from service.api.contract import ApiRequest


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
