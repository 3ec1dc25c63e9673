"""What an operation promises: written once beside its handler, read by the OpenAPI document.

Litestar's own generator does not say what strictly read msgspec documents accept; see
`.github/decisions/0003-openapi-from-contracts.md`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from re import Pattern
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from litestar import Request, Response
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from service.api.long_answers import LOOK_EVERY_S, while_admitted
from service.errors import ForbiddenError, MalformedError
from service.jobs.scopes import Scope

JSON = "application/json"
PROBLEM = "application/problem+json"
EVENT_STREAM = "text/event-stream"

# Schema of an answer that is no JSON document (CSV, JSON Lines, HTML, metrics).
TEXT: dict[str, Any] = {"type": "string"}
FORM = "multipart/form-data"
# The part of an upload that may be repeated, and the schema of such a body.
FILE_PART = "file"
FILES: dict[str, Any] = {
    "type": "object",
    "required": [FILE_PART],
    "properties": {
        FILE_PART: {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
        }
    },
    "additionalProperties": False,
}
# A table too short to be fitted, to show its form
FILES_EXAMPLE: dict[str, Any] = {
    FILE_PART: ["step,rank,compute_ms\n0,0,301.2\n0,1,298.7\n1,0,300.4\n1,1,302.0\n"]
}

ApiRequest: TypeAlias = Request[Any, Any, State]
ApiResponse: TypeAlias = Response[bytes]
Handler: TypeAlias = Callable[[ApiRequest], Awaitable[ApiResponse]]
HeaderName: TypeAlias = Literal[
    "Accept-Ranges",
    "Cache-Control",
    "Content-Disposition",
    "Content-Range",
    "ETag",
    "Idempotent-Replayed",
    "Link",
    "Location",
    "Preference-Applied",
    "Repr-Digest",
    "Retry-After",
    "Set-Cookie",
]


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of server-sent events: their names, and the msgspec type of their JSON data."""

    names: tuple[str, ...]
    data: Any


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One successful answer.

    `body` is the msgspec type of a JSON answer, or a tuple of types of which it is one. Other
    media types are listed in `media_types` and have the schema of a string; `events` is a stream
    of events. None of them means an empty answer.
    """

    description: str
    body: Any | None = None
    headers: tuple[HeaderName, ...] = ()
    media_types: tuple[str, ...] = ()
    events: Events | None = None
    example: Any | None = None


class RequestHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A request header that the operation reads, beside the ones that the flags declare."""

    name: str
    description: str
    pattern: str
    example: str
    required: bool = False


IDEMPOTENCY_KEY = RequestHeader(
    name="Idempotency-Key",
    description="Any text that names this attempt, e.g. a UUID: the same key and body get the "
    "same answer, and nothing is created twice. A key is its sender's own and is remembered for "
    "7 days.",
    pattern=r"^[\x21-\x7e]{1,255}$",
    example="7d3f0c9b-e8a1-4d4f-9d2b-6f0c1a5e8b21",
)


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """The whole promise of one operation.

    - `body`: msgspec type of the request body, `body_examples` name -> builtins that really are
      answered 2xx on a service with the example data; `needs_body`: whether it must be sent;
    - `text_body`: media type of a request body that is no JSON (a CSV upload), with its example;
    - `takes_files`: the body is multipart/form-data with one or more files, which are streamed;
    - `query`, `path`: Structs with one field per parameter; `Meta` carries the descriptions and
      the examples. A field of type `tuple[X, ...]` may be repeated in the query;
    - `scope`: what the caller must hold; None: everybody may, without any key;
    - `reveals_costs`: its answers may hold money, so that reading them is recorded;
    - `problems`: statuses beside those that follow from the rest (see `problem_statuses`);
    - `idempotent`: reads Idempotency-Key; `needs_if_match`: demands If-Match;
      `conditional_get`: answers 304 to a matching If-None-Match.
    """

    operation_id: str
    summary: str
    tag: str
    scope: Scope | None
    answers: Mapping[int, Answer]
    description: str = ""
    body: Any | None = None
    body_examples: Mapping[str, Any] = {}
    text_body: tuple[str, str] | None = None
    takes_files: bool = False
    needs_body: bool = True
    query: type[msgspec.Struct] | None = None
    path: type[msgspec.Struct] | None = None
    request_headers: tuple[RequestHeader, ...] = ()
    problems: tuple[int, ...] = ()
    reveals_costs: bool = False
    idempotent: bool = False
    needs_if_match: bool = False
    conditional_get: bool = False

    @property
    def has_body(self) -> bool:
        """Whether a request body is read."""
        return self.body is not None or self.text_body is not None or self.takes_files

    @property
    def checked_headers(self) -> tuple[RequestHeader, ...]:
        """The request headers whose form is checked before the handler is called."""
        return (*self.request_headers, *((IDEMPOTENCY_KEY,) if self.idempotent else ()))

    @property
    def problem_statuses(self) -> tuple[int, ...]:
        """All statuses that are answered with a problem document."""
        # What may happen everywhere: a malformed request, a foreign Host or Origin, a request that
        # comes too slowly or has too large a header, a defect, a database that is away.
        found = {400, 403, 408, 431, 500, 503, *self.problems}
        if self.scope is not None:
            found |= {401, 429}
        if self.has_body:
            found |= {413, 415, 422}
        if self.path is not None:
            found.add(404)
        if self.idempotent:
            found |= {409, 422}
        if self.needs_if_match:
            found |= {412, 428}
        return tuple(sorted(found - set(self.answers)))


class Gate(Protocol):
    """What every operation passes: `app.state.gate` (see `admission.py`)."""

    async def admit(self, request: ApiRequest, contract: Contract) -> None:
        """Let in who may do this, within the limits; raises what is answered otherwise."""

    async def note_answer(self, request: ApiRequest, contract: Contract, status: int) -> None:
        """Record that money is about to be shown; raises when it cannot be recorded."""

    async def still_admits(self, request: ApiRequest) -> bool:
        """Whether who was admitted would be now."""

    async def note_refusal(
        self, request: ApiRequest, contract: Contract, error: ForbiddenError
    ) -> None:
        """Record that the operation itself has refused something."""


def operation(
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"], path: str, contract: Contract
) -> Callable[[Handler], HTTPRouteHandler]:
    """Register an async handler `(request) -> ApiResponse` under a path such as `/v1/x/{id:str}`.

    Path parameters are always declared `:str` and read with `parameters.read_path`, so that a
    malformed one is the same 404 as an unknown one.
    """
    patterns = {header: re.compile(header.pattern) for header in contract.checked_headers}

    def register(handler: Handler) -> HTTPRouteHandler:
        @wraps(handler)
        async def admitted(request: ApiRequest) -> ApiResponse:
            gate: Gate = request.app.state.gate
            await gate.admit(request, contract)
            _check_headers(request, patterns)
            try:
                response = await handler(request)
            except ForbiddenError as error:
                await gate.note_refusal(request, contract, error)
                raise
            try:
                await gate.note_answer(request, contract, response.status_code or 200)
            except BaseException:
                await _discard(response)
                raise
            if contract.scope is not None:
                _watch(response, partial(gate.still_admits, request))
            return response

        return HTTPRouteHandler(
            path,
            http_method=method,
            # Of a handler; each answer has its own. Litestar takes 204 for a handler without any.
            status_code=min(contract.answers.keys() - {204}, default=200),
            opt={"contract": contract},
            name=contract.operation_id,
            after_request=_keep_media_type,
        )(admitted)

    return register


def _check_headers(request: ApiRequest, patterns: Mapping[RequestHeader, Pattern[str]]) -> None:
    for header, pattern in patterns.items():
        value = request.headers.get(header.name.lower())
        if value is None:
            if header.required:
                raise MalformedError(f"the header {header.name} is missing")
        elif not pattern.search(value):
            raise MalformedError(
                f"the header {header.name} is {value!r}, but must match {header.pattern}"
            )


def _watch(response: Response[Any], may_go_on: Callable[[], Awaitable[bool]]) -> None:
    if isinstance(response, Stream):
        response.iterator = while_admitted(
            response.iterator,
            may_go_on,
            every_s=LOOK_EVERY_S,
            is_endless=response.media_type == EVENT_STREAM,
        )


async def _discard(response: Response[Any]) -> None:
    """Give back what a stream holds that nobody will read.

    A generator that was never started has no `finally` to run: it is started first.
    """
    if isinstance(response, Stream):
        parts: Any = response.iterator
        async for _ in parts:
            break
        await parts.aclose()


async def _keep_media_type(response: Response[Any]) -> Response[Any]:
    """Litestar prefers the media type of the handler to that of a stream."""
    if isinstance(response, Stream) and response.media_type:
        response.headers.setdefault("Content-Type", str(response.media_type))
    return response
