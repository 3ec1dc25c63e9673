import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient

from service.api.bodies import decode_json
from service.errors import InvalidError, MalformedError
from service.settings import Limits

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
JSON = {"content-type": "application/json"}
URL = "/v1/evaluations"


@pytest.fixture(scope="module")
def shared_limits() -> Limits:
    return Limits(body_bytes=2_000, requests_per_minute=0)


@pytest.fixture(scope="module")
def client(shared_client: TestClient[Litestar]) -> TestClient[Litestar]:
    return shared_client


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"{", "no JSON"),
        (b'{"scenario": }', "no JSON"),
        (b"{} {}", "trailing"),
        (b"NaN", "nan is refused: numbers must be finite"),
        (b'{"scenario": {"num_gpus": Infinity}}', "inf is refused"),
        (b'{"scenario": {"num_gpus": -Infinity}}', "-inf is refused"),
        (b"1e400", "inf is refused"),
        (b'"\xff"', "UTF-8"),
        (b'"\\ud800"', "no JSON"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (b"[" * 1500, "nested too deeply"),
        (b"[" * 65 + b"]" * 65, "at most 64 levels"),
        (b'{"a":[' * 33 + b"]}" * 33, "at most 64 levels"),
        (b'{"scenario": {"num_gpus": 1, "num_gpus": 2}}', "'num_gpus' stands twice"),
    ],
)
def test_what_is_no_json_is_a_400(
    client: TestClient[Litestar], problem_of: ProblemOf, body: bytes, words: str
) -> None:
    answer = client.post(URL, content=body, headers=JSON)
    assert words in problem_of(answer, "malformed-request")["detail"]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "application/json; charset=latin-1",
        "application/json; version=2",
        ", application/json",
    ],
)
def test_another_content_type_is_a_415(
    client: TestClient[Litestar], problem_of: ProblemOf, sent: str | None
) -> None:
    headers = {} if sent is None else {"content-type": sent}
    problem_of(client.post(URL, content=b"{}", headers=headers), "unsupported-media-type")


@pytest.mark.parametrize(
    "sent",
    ["application/json", "Application/JSON; Charset=UTF-8", 'application/json;charset="utf-8"'],
)
def test_json_in_utf_8_is_read(
    client: TestClient[Litestar], problem_of: ProblemOf, sent: str
) -> None:
    problem_of(client.post(URL, content=b"[]", headers={"content-type": sent}), "invalid-input")


def test_a_body_over_the_limit_is_a_413_with_both_numbers(
    client: TestClient[Litestar], problem_of: ProblemOf
) -> None:
    found = problem_of(client.post(URL, content=b" " * 2_001, headers=JSON), "too-large")
    assert "2001 bytes" in found["detail"]
    assert "2000 bytes" in found["detail"]


def test_a_chunked_body_over_the_limit_is_a_413(
    client: TestClient[Litestar], problem_of: ProblemOf
) -> None:
    chunks = (b" " * 500 for _ in range(8))
    found = problem_of(client.post(URL, content=chunks, headers=JSON), "too-large")
    assert "2000 bytes" in found["detail"]


def test_a_null_character_is_named_by_its_place(
    client: TestClient[Litestar], problem_of: ProblemOf
) -> None:
    body = {"scenario": {"a": ["x", "y\0"], "b\0": 1}}
    found = problem_of(client.post(URL, json=body), "invalid-input")
    assert [fault["pointer"] for fault in found["errors"]] == ["/scenario/a/1", "/scenario/b\0"]


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**300])
def test_an_integer_that_others_read_wrongly_is_named_by_its_place(
    client: TestClient[Litestar], problem_of: ProblemOf, number: int
) -> None:
    body = {"scenario": {"a": [0, number]}, "profile": "1234567890123456"}
    found = problem_of(client.post(URL, json=body), "invalid-input")
    (fault,) = found["errors"]
    assert (fault["pointer"], fault["code"]) == ("/scenario/a/1", "unsafe_integer")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 64 + b"]" * 64,
        b'{"a":[' * 32 + b"]}" * 32,
        b"[" + b"[],{}," * 500 + b"0]",
        b'["' + b'[\\"{' * 300 + b'"]',
    ],
)
def test_what_is_wide_or_only_looks_deep_is_read(body: bytes) -> None:
    assert decode_json(body) == json.loads(body)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@settings(max_examples=40)
@given(json_values)
def test_any_json_value_is_read_as_it_is(value: Any) -> None:
    if "\\u0000" in json.dumps(value):
        with pytest.raises(InvalidError):
            decode_json(json.dumps(value).encode())
    else:
        assert decode_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(InvalidError, MalformedError):
        decode_json(body)


def test_numbers_that_are_not_finite_are_named_by_their_place(
    client: TestClient[Litestar], problem_of: Callable[[httpx.Response, str], dict[str, Any]]
) -> None:
    body = b'{"scenario": {"num_gpus": 64, "compute_ms": NaN, "a/b": [1, -Infinity]}}'
    answer = client.post(
        "/v1/evaluations", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    errors = problem_of(answer, "malformed-request")["errors"]
    assert {error["pointer"]: error["detail"] for error in errors} == {
        "/scenario/compute_ms": "nan is refused: numbers must be finite",
        "/scenario/a~1b/1": "-inf is refused: numbers must be finite",
    }


@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP", "identity, gzip", "zstd", "", "\u00e9"])
def test_a_compressed_body_is_refused_unread(
    client: TestClient[Litestar], problem_of: ProblemOf, encoding: str
) -> None:
    # A gigabyte of zeros would be a megabyte; this one is 20 MB in under 2 000 bytes.
    bomb = gzip.compress(gzip.compress(bytes(20_000_000), 9), 9)
    assert len(bomb) < 2_000
    headers = httpx.Headers(JSON, encoding="latin-1")
    headers["content-encoding"] = encoding
    answer = client.post(URL, content=bomb, headers=headers)
    assert "uncompressed only" in problem_of(answer, "unsupported-media-type")["detail"]
    assert answer.headers["accept-encoding"] == "identity"


def test_the_identity_is_no_compression(client: TestClient[Litestar]) -> None:
    scenario = {"num_gpus": 8, "compute_ms": 300}
    headers = {"content-encoding": "identity"}
    assert client.post(URL, json={"scenario": scenario}, headers=headers).status_code == 200
    wrong = client.post(URL, content=b"{}", headers={"content-type": "text/plain"})
    assert "accept-encoding" not in wrong.headers
