"""What an operation promises: written once beside its handler, read by the OpenAPI document.

Litestar's own generator does not say what strictly read msgspec documents accept; see
`.github/decisions/0003-openapi-from-contracts.md`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from litestar import Request, Response
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

JSON = "application/json"
PROBLEM = "application/problem+json"

# Schema of an answer that is no JSON document (CSV, JSON Lines, HTML, metrics).
TEXT: dict[str, Any] = {"type": "string"}

ApiRequest: TypeAlias = Request[Any, Any, State]
ApiResponse: TypeAlias = Response[bytes]
Handler: TypeAlias = Callable[[ApiRequest], Awaitable[ApiResponse]]
HeaderName: TypeAlias = Literal[
    "Cache-Control",
    "Content-Disposition",
    "ETag",
    "Idempotent-Replayed",
    "Link",
    "Location",
    "Preference-Applied",
    "Retry-After",
]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One successful answer.

    `body` is the msgspec type of a JSON answer. Other media types are listed in `media_types`
    and have the schema of a string. No `body` and no `media_types` means an empty answer.
    """

    description: str
    body: Any | None = None
    headers: tuple[HeaderName, ...] = ()
    media_types: tuple[str, ...] = ()
    example: Any | None = None


class RequestHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A request header that the operation reads, beside the ones that the flags declare."""

    name: str
    description: str
    pattern: str
    example: str
    required: bool = False


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """The whole promise of one operation.

    - `body`: msgspec type of the request body, `body_examples` name -> builtins that really are
      answered 2xx on a service with the example data;
    - `text_body`: media type of a request body that is no JSON (a CSV upload), with its example;
    - `query`, `path`: Structs with one field per parameter; `Meta` carries the descriptions and
      the examples. A field of type `tuple[X, ...]` may be repeated in the query;
    - `problems`: statuses beside those that follow from the rest (see `problem_statuses`);
    - `idempotent`: reads Idempotency-Key; `needs_if_match`: demands If-Match;
      `conditional_get`: answers 304 to a matching If-None-Match.
    """

    operation_id: str
    summary: str
    tag: str
    answers: Mapping[int, Answer]
    description: str = ""
    body: Any | None = None
    body_examples: Mapping[str, Any] = {}
    text_body: tuple[str, str] | None = None
    query: type[msgspec.Struct] | None = None
    path: type[msgspec.Struct] | None = None
    request_headers: tuple[RequestHeader, ...] = ()
    problems: tuple[int, ...] = ()
    idempotent: bool = False
    needs_if_match: bool = False
    conditional_get: bool = False

    @property
    def has_body(self) -> bool:
        """Whether a request body is read."""
        return self.body is not None or self.text_body is not None

    @property
    def problem_statuses(self) -> tuple[int, ...]:
        """All statuses that are answered with a problem document."""
        # 400, 403, 500 and 503: a malformed request, a foreign Host or Origin, a defect, and a
        # database that is away may happen everywhere.
        found = {400, 403, 500, 503, *self.problems}
        if self.has_body:
            found |= {413, 415, 422}
        if self.path is not None:
            found.add(404)
        if self.idempotent:
            found |= {409, 422}
        if self.needs_if_match:
            found |= {412, 428}
        return tuple(sorted(found - set(self.answers)))


def operation(
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"], path: str, contract: Contract
) -> Callable[[Handler], HTTPRouteHandler]:
    """Register an async handler `(request) -> ApiResponse` under a path such as `/v1/x/{id:str}`.

    Path parameters are always declared `:str` and read with `parameters.read_path`, so that a
    malformed one is the same 404 as an unknown one.
    """

    def register(handler: Handler) -> HTTPRouteHandler:
        status = min(contract.answers)
        return HTTPRouteHandler(
            path,
            http_method=method,
            status_code=status,
            opt={"contract": contract},
            name=contract.operation_id,
            # A generic Response with raw bytes leaves nothing for Litestar to encode.
            media_type=JSON,
        )(handler)

    return register
