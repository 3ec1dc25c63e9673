"""The one place where errors become problem documents (RFC 9457)."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
import structlog
from litestar import Response
from litestar.exceptions import HTTPException, MethodNotAllowedException
from msgspec import UNSET, Meta, UnsetType

from service.api.answers import encode
from service.api.contract import PROBLEM, ApiRequest, ApiResponse
from service.api.parameters import ParameterFault
from service.api.problem_types import PROBLEM_TYPES, ProblemType
from service.api.tracing import trace_id_of
from service.db.engine import OperationalError
from service.db.failures import cause_of, disk_fault
from service.errors import Fault, OverLimitError, TrainardError, UnsupportedEncodingError
from service.model.problems import InvalidScenario

RETRY_AFTER_S = 5
MAX_ERRORS = 1_000

log = structlog.get_logger()

_SLUGS = {
    400: "malformed-request",
    404: "unknown-route",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    415: "unsupported-media-type",
    503: "unavailable",
}


class ProblemError(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of the request."""

    code: Annotated[str, Meta(description="Stable name of the rule.", examples=["out_of_range"])]
    detail: Annotated[str, Meta(description="The value and the rule.")]
    pointer: (
        Annotated[
            str,
            Meta(
                description="JSON pointer (RFC 6901) into the body.",
                examples=["/scenario/slow_groups/0/count"],
            ),
        ]
        | UnsetType
    ) = UNSET
    parameter: (
        Annotated[str, Meta(description="Name of the query parameter.", examples=["page_size"])]
        | UnsetType
    ) = UNSET


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What every error is answered with."""

    type: Annotated[
        str,
        Meta(
            description="Stable address of the kind of problem, where it is explained.",
            examples=["/problems/invalid-scenario"],
        ),
    ]
    title: Annotated[str, Meta(description="The kind of problem; the same for each `type`.")]
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: Annotated[str, Meta(description="This case, with the value and the rule.")]
    instance: Annotated[str, Meta(description="Path of the request.")]
    errors: Annotated[
        tuple[ProblemError, ...], Meta(description="All faults, where there are any.")
    ]
    trace_id: Annotated[
        str, Meta(description="Names the request in the log; also the X-Request-Id header.")
    ]


def answer_error(request: ApiRequest, error: Exception) -> ApiResponse:
    """The answer to any error; what is no fault of the caller is logged with its trace."""
    kind = _kind(error)
    headers = {"Cache-Control": "no-store"}
    if isinstance(error, MethodNotAllowedException):
        headers["Allow"] = allowed_methods((error.headers or {}).get("allow", ""))
    if kind.status == 503 or kind.slug in {"batch-not-finished", "export-not-finished"}:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if isinstance(error, OverLimitError):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, UnsupportedEncodingError):
        headers["Accept-Encoding"] = "identity"
    if kind.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="trainard"'
    _log_failure(trace_id_of(request.scope), error, kind)
    problem = Problem(
        type=kind.uri,
        title=kind.title,
        status=kind.status,
        detail=_detail(request, error, kind),
        instance=request.scope["path"],
        errors=tuple(_errors(error)),
        trace_id=trace_id_of(request.scope),
    )
    return Response(encode(problem), status_code=kind.status, media_type=PROBLEM, headers=headers)


def _log_failure(trace_id: str, error: Exception, kind: ProblemType) -> None:
    if kind.status < 500 or isinstance(error, TrainardError):
        return
    if isinstance(error, OperationalError):
        # Every request fails so while the database is away or full: a trace each would fill disks.
        log.warning("request_failed", trace_id=trace_id, reason=cause_of(error))
    else:
        log.error("request_failed", trace_id=trace_id, exc_info=error)


def allowed_methods(methods: str | Iterable[str]) -> str:
    """The value of Allow for the methods of the handlers: GET brings HEAD, all bring OPTIONS."""
    names = methods.replace(",", " ").split() if isinstance(methods, str) else methods
    known = {*names, "OPTIONS"}
    if "GET" in known:
        known.add("HEAD")
    return ", ".join(sorted(known))


def _kind(error: Exception) -> ProblemType:
    if isinstance(error, TrainardError):
        by_slug = PROBLEM_TYPES.get(error.problem) or PROBLEM_TYPES.get(type(error).problem)
        return by_slug or PROBLEM_TYPES["internal-error"]
    if isinstance(error, InvalidScenario):
        return PROBLEM_TYPES["invalid-scenario"]
    if isinstance(error, OperationalError):
        return PROBLEM_TYPES["unavailable"]
    if isinstance(error, HTTPException) and error.status_code < 500:
        return PROBLEM_TYPES[_SLUGS.get(error.status_code, "client-error")]
    return PROBLEM_TYPES["internal-error"]


def _detail(request: ApiRequest, error: Exception, kind: ProblemType) -> str:
    if isinstance(error, TrainardError):
        return error.detail
    if isinstance(error, InvalidScenario):
        return str(error)
    if isinstance(error, OperationalError):
        return disk_fault(error) or "the database does not answer"
    sentence = {
        "unknown-route": "{path} is no address of this service",
        "method-not-allowed": "{path} does not know the method {method}",
        "too-large": "the body has {size} bytes, but the limit is {limit} bytes",
        # The text of an unexpected error may hold SQL or values of others: only the log has it.
        "internal-error": "an unexpected error; it is logged under the trace_id",
    }.get(kind.slug)
    if sentence is None:
        return error.detail if isinstance(error, HTTPException) else kind.title
    return sentence.format(
        path=request.scope["path"],
        method=request.scope["method"],
        size=request.headers.get("content-length", "more"),
        limit=request.app.state.settings.limits.body_bytes,
    )


def _errors(error: Exception) -> Iterable[ProblemError]:
    faults: tuple[Fault, ...] = ()
    if isinstance(error, TrainardError):
        faults = error.errors
    elif isinstance(error, InvalidScenario):
        faults = tuple(error.problems)
    for fault in faults[:MAX_ERRORS]:
        if isinstance(fault, ParameterFault):
            yield ProblemError(code=fault.code, detail=fault.detail, parameter=fault.parameter)
        else:
            yield ProblemError(code=fault.code, detail=fault.detail, pointer=fault.pointer)
