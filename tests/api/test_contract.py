from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import httpx
import pytest
from litestar import Litestar
from litestar.response import Stream
from litestar.testing import TestClient
from msgspec import Meta, Struct

from service.api.answers import json_answer
from service.api.contract import (
    Answer,
    ApiRequest,
    ApiResponse,
    Contract,
    RequestHeader,
    operation,
)
from service.api.openapi import document

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]


class Body(Struct, frozen=True, kw_only=True):
    size: int = 1


class Path(Struct, frozen=True, kw_only=True):
    id: Annotated[str, Meta(description="Its id.", examples=["a"])]


EVERYWHERE = {400, 403, 408, 431, 500, 503}
ANSWERS = {200: Answer(description="Done", body=Body)}


@pytest.mark.parametrize(
    ("contract", "statuses"),
    [
        ({}, EVERYWHERE),
        ({"body": Body}, EVERYWHERE | {413, 415, 422}),
        ({"path": Path}, EVERYWHERE | {404}),
        ({"needs_if_match": True}, EVERYWHERE | {412, 428}),
        ({"idempotent": True, "problems": (404,)}, EVERYWHERE | {404, 409, 422}),
    ],
)
def test_statuses_follow_from_what_is_read(contract: dict[str, Any], statuses: set[int]) -> None:
    made = Contract(
        operation_id="x", summary="x", tag="Service", scope=None, answers=ANSWERS, **contract
    )
    assert set(made.problem_statuses) == statuses


@operation(
    "POST",
    "/keyed",
    Contract(
        operation_id="keyed",
        summary="Reads headers",
        tag="Service",
        scope=None,
        answers=ANSWERS,
        idempotent=True,
        request_headers=(
            RequestHeader(
                name="Prefer",
                description="x",
                pattern="^wait=[0-9]+$",
                example="wait=1",
                required=True,
            ),
        ),
    ),
)
async def keyed(request: ApiRequest) -> ApiResponse:  # noqa: ARG001
    return json_answer(Body())


async def _parts() -> AsyncIterator[bytes]:
    yield b"a,b\r\n"


@operation(
    "GET",
    "/streamed",
    Contract(
        operation_id="streamed",
        summary="Streams",
        tag="Service",
        scope=None,
        answers={200: Answer(description="A file", media_types=("text/csv",))},
    ),
)
async def streamed(request: ApiRequest) -> Any:  # noqa: ARG001
    return Stream(_parts(), media_type="text/csv; header=present")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "Prefer is missing"),
        ({"prefer": "wait=x"}, "Prefer is 'wait=x'"),
        ({"prefer": "wait=1", "idempotency-key": "a b"}, "Idempotency-Key is 'a b'"),
        ({"prefer": "wait=1", "idempotency-key": "a" * 256}, "Idempotency-Key is"),
    ],
)
def test_declared_headers_are_checked(
    app: Litestar, problem_of: ProblemOf, headers: dict[str, str], words: str
) -> None:
    app.register(keyed)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.post("/keyed", headers=headers)
        assert words in problem_of(answer, "malformed-request")["detail"]
        assert client.post("/keyed", headers={"prefer": "wait=1"}).status_code == 200


def test_a_stream_keeps_its_media_type(app: Litestar) -> None:
    app.register(streamed)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get("/streamed")
    assert answer.headers["content-type"] == "text/csv; header=present"
    assert answer.content == b"a,b\r\n"


def test_a_path_that_the_contract_does_not_know_is_refused(app: Litestar) -> None:
    @operation(
        "GET",
        "/things/{id:str}",
        Contract(operation_id="thing", summary="x", tag="Service", scope=None, answers=ANSWERS),
    )
    async def thing(request: ApiRequest) -> ApiResponse:  # noqa: ARG001
        return json_answer(Body())

    app.register(thing)
    with pytest.raises(ValueError, match="thing: the contract's path"):
        document(app)


def test_two_documents_of_one_name_are_refused(app: Litestar) -> None:
    class Health(Struct):
        """Another one than that of /healthz."""

        pulse: int

    @operation(
        "GET",
        "/another",
        Contract(
            operation_id="another",
            summary="x",
            tag="Service",
            scope=None,
            answers={200: Answer(description="x", body=Health)},
        ),
    )
    async def another(request: ApiRequest) -> ApiResponse:  # noqa: ARG001
        return json_answer(Health(pulse=1))

    app.register(another)
    with pytest.raises(ValueError, match="named Health"):
        document(app)
