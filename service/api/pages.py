"""Links from page to page (RFC 8288)."""

from service.api.contract import ApiRequest


def link_header(request: ApiRequest, next_page_token: str | None) -> dict[str, str]:
    """The Link header to the next page, same filters; empty on the last page."""
    if next_page_token is None:
        return {}
    url = request.url.include_query_params(page_token=next_page_token)
    return {"Link": f'<{url.path}?{url.query}>; rel="next"'}
