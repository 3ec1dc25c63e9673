import pytest
from litestar.testing import RequestFactory

from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import ApiRequest
from service.errors import PreconditionFailedError, PreconditionRequiredError


def request(**headers: str) -> ApiRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    made: ApiRequest = RequestFactory().get("/", headers=named)
    return made


def test_an_etag_goes_there_and_back() -> None:
    assert etag_of(7) == '"7"'
    assert expected_version(request(if_match=etag_of(7))) == 7


@pytest.mark.parametrize("headers", [{}, {"if_match": "*"}])
def test_a_change_without_a_version_needs_one(headers: dict[str, str]) -> None:
    with pytest.raises(PreconditionRequiredError):
        expected_version(request(**headers))


@pytest.mark.parametrize(
    "tag", ["7", 'W/"7"', '"x"', '"7", "8"', '""', '"-1"', '"99999999999"', "", '"²"']
)
def test_a_tag_that_was_never_given_does_not_match(tag: str) -> None:
    with pytest.raises(PreconditionFailedError):
        expected_version(request(if_match=tag))


@pytest.mark.parametrize("tag", ['"7"', 'W/"7"', '"6", "7"', "*"])
def test_a_known_version_is_not_sent_again(tag: str) -> None:
    answer = not_modified(request(if_none_match=tag), etag_of(7))
    assert answer is not None
    assert (answer.status_code, answer.headers["ETag"]) == (304, '"7"')


@pytest.mark.parametrize("headers", [{}, {"if_none_match": '"6"'}, {"if_none_match": "7"}])
def test_another_version_is_sent(headers: dict[str, str]) -> None:
    assert not_modified(request(**headers), etag_of(7)) is None
