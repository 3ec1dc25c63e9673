import pytest
from litestar.testing import RequestFactory

from service.api.ranges import RangeNotSatisfiableError, Span, requested_span

ETAG = '"abc"'


def span_of(size: int = 1000, **headers: str) -> Span | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requested_span(RequestFactory().get(headers=named), size, ETAG)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-499", (0, 500)),
        ("bytes=500-999", (500, 1000)),
        ("bytes=500-99999", (500, 1000)),
        ("bytes=999-", (999, 1000)),
        ("bytes=0-", (0, 1000)),
        ("bytes=-1", (999, 1000)),
        ("bytes=-99999", (0, 1000)),
        ("bytes= 5-6 ", (5, 7)),
        ("bytes=" + "0" * 25 + "1-", (1, 1000)),
        ("bytes=-" + "9" * 25, (0, 1000)),
    ],
)
def test_one_range_is_given(text: str, expected: tuple[int, int]) -> None:
    assert span_of(range=text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "bytes=0-1,5-6",
        "bytes=-",
        "bytes=",
        "bytes",
        "bytes=6-5",
        "bytes=a-b",
        "bytes=1.5-2",
        "bytes=--5",
        "bytes=+1-5",
        "bytes=0x1-5",
        "bytes=" + "9" * 200 + "-",
        "lines=0-5",
        "BYTES 0-5",
    ],
)
def test_what_is_no_single_range_is_ignored(text: str) -> None:
    assert span_of(range=text) is None


@pytest.mark.parametrize(
    "text", ["bytes=1000-", "bytes=1000-1001", "bytes=-0", "bytes=" + "9" * 25 + "-"]
)
def test_a_range_without_a_byte_is_refused(text: str) -> None:
    with pytest.raises(RangeNotSatisfiableError, match="the file has 1000 bytes"):
        span_of(range=text)


def test_an_empty_file_has_no_range() -> None:
    for text in ("bytes=0-", "bytes=-5"):
        with pytest.raises(RangeNotSatisfiableError):
            span_of(0, range=text)
    assert span_of(0) is None


def test_a_range_of_another_file_is_ignored() -> None:
    assert span_of(range="bytes=0-4", if_range=ETAG) == (0, 5)
    for other in ('"abd"', 'W/"abc"', "abc", "Sun, 29 Nov 2026 19:00:00 GMT", "*"):
        assert span_of(range="bytes=0-4", if_range=other) is None
        assert span_of(range="bytes=5000-", if_range=other) is None
