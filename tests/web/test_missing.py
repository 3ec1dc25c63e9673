"""Addresses without a page: a page for browsers, the problem document for programs."""

import pytest
from litestar import Litestar
from litestar.testing import TestClient

Client = TestClient[Litestar]
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/nope", "/batches/a/b", "/.well-known/x", "/v2/x"])
@pytest.mark.parametrize(
    ("language", "title"), [("en", "No such page"), ("fr", "Page introuvable")]
)
def test_a_browser_gets_a_page(shared_client: Client, path: str, language: str, title: str) -> None:
    answer = shared_client.get(path, headers={**BROWSER, "Accept-Language": language})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-language"] == language
    assert f"<title>{title}" in answer.text
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    # What was asked for is shown by a module, and so is never read as HTML.
    assert path not in answer.text
    head = shared_client.head(path, headers={**BROWSER, "Accept-Language": language})
    assert (head.status_code, head.content) == (404, b"")
    assert head.headers["content-length"] == str(len(answer.content))


@pytest.mark.parametrize(
    ("method", "path", "accept"),
    [
        ("GET", "/nope", "*/*"),
        ("GET", "/nope", "application/json"),
        ("POST", "/nope", "text/html"),
        ("GET", "/v1/nope", "text/html"),
        ("GET", "/v1", "text/html"),
        ("GET", "/problems/nope", "text/html"),
        ("GET", "/assets/nope", "text/html"),
        ("GET", "/assets/%2e%2e/%2e%2e/etc/passwd", "text/html"),
        ("GET", "/docs/nope/nope", "text/html"),
    ],
)
def test_programs_get_the_problem_document(
    shared_client: Client, method: str, path: str, accept: str
) -> None:
    answer = shared_client.request(method, path, headers={"Accept": accept})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_foreign_host_gets_no_page(shared_client: Client) -> None:
    for path in ("/", "/nope", "/sign-in"):
        answer = shared_client.get(path, headers={**BROWSER, "Host": "evil.example"})
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/rates", "/sign-in"])
def test_pages_answer_head_and_are_never_framed(shared_client: Client, path: str) -> None:
    head, page = shared_client.head(path), shared_client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(page.content))
    for answer in (head, page):
        assert answer.headers["x-frame-options"] == "DENY"
        policy = answer.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "frame-src 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert answer.headers["vary"] == "Accept-Language, Cookie"
