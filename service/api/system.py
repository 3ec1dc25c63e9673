"""The state, the limits and the description of the service."""

import hashlib
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from litestar.handlers import HTTPRouteHandler

from service.api import openapi
from service.api.answers import json_answer, raw_answer
from service.api.concurrency import etag_of, not_modified
from service.api.contract import JSON, Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.parameters import refuse_query
from service.api.transactions import read, settings_of
from service.api.versions import VERSIONS, Versions
from service.db import migrate
from service.db.engine import OperationalError
from service.errors import UnavailableError
from service.jobs.evaluations import MAX_RANKS

METRICS = "text/plain; version=0.0.4"
TAG = "Service"

migration_head = cache(migrate.head)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ShownLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may ask for; more is refused with the numbers."""

    body_bytes: int
    items_per_batch: int
    points_per_batch: int
    page_size: int
    unfinished_batches: int
    event_streams: int
    wait_s: int
    ranks: int
    retention_days: Annotated[
        int,
        msgspec.Meta(description="Batches that ended longer ago are deleted; 0: kept for ever."),
    ]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What this service is and what it takes."""

    versions: Versions
    limits: ShownLimits
    migration: str


@operation(
    "GET",
    "/healthz",
    Contract(
        operation_id="get_health",
        summary="Whether the process answers",
        tag=TAG,
        answers={200: Answer(description="It does", body=Health)},
    ),
)
async def get_health(request: ApiRequest) -> ApiResponse:
    """Answer without asking anything else."""
    refuse_query(request)
    return json_answer(Health())


@operation(
    "GET",
    "/readyz",
    Contract(
        operation_id="get_readiness",
        summary="Whether requests can be served",
        description="503 when the database cannot be reached, its tables are of another version "
        "than the program, or batches are not looked after.",
        tag=TAG,
        answers={200: Answer(description="They can", body=Health)},
    ),
)
async def get_readiness(request: ApiRequest) -> ApiResponse:
    """Compare the tables with the program."""
    refuse_query(request)
    try:
        found = await read(request, migrate.current_of)
    except OperationalError:
        raise UnavailableError("the database does not answer", problem="not-ready") from None
    if found != migration_head():
        raise UnavailableError(
            f"the tables are at revision {found or 'none'}, the program needs {migration_head()}: "
            "run trainard migrate",
            problem="not-ready",
        )
    engine = request.app.state.engine
    if not engine.is_alive or engine.fault is not None:
        raise UnavailableError(
            f"batches are not looked after: {engine.fault or 'the engine has ended'}",
            problem="not-ready",
        )
    return json_answer(Health())


@operation(
    "GET",
    "/metrics",
    Contract(
        operation_id="get_metrics",
        summary="Metrics of this process for Prometheus",
        tag=TAG,
        answers={200: Answer(description="Text exposition format 0.0.4", media_types=(METRICS,))},
    ),
)
async def get_metrics(request: ApiRequest) -> ApiResponse:
    """Answer with the counters of this process."""
    refuse_query(request)
    return raw_answer(request.app.state.metrics.render(), media_type=METRICS)


@operation(
    "GET",
    "/v1/meta",
    Contract(
        operation_id="get_meta",
        summary="Versions and limits",
        tag=TAG,
        answers={200: Answer(description="Versions and limits", body=About)},
    ),
)
async def get_meta(request: ApiRequest) -> ApiResponse:
    """Answer with what decides numbers and what is refused."""
    refuse_query(request)
    settings = settings_of(request)
    limits = msgspec.structs.asdict(settings.limits)
    return json_answer(
        About(
            versions=VERSIONS,
            limits=ShownLimits(**limits, ranks=MAX_RANKS, retention_days=settings.retention_days),
            migration=migration_head(),
        )
    )


@operation(
    "GET",
    "/openapi.json",
    Contract(
        operation_id="get_openapi",
        summary="This description",
        tag=TAG,
        conditional_get=True,
        answers={200: Answer(description="OpenAPI 3.1", body=dict[str, Any], headers=("ETag",))},
    ),
)
async def get_openapi(request: ApiRequest) -> ApiResponse:
    """Answer with the document that is rendered once for each app."""
    refuse_query(request)
    content, digest = _described(request)
    tag = etag_of(digest)
    unchanged = not_modified(request, tag)
    return unchanged or raw_answer(content, media_type=JSON, headers={"ETag": tag})


def _described(request: ApiRequest) -> tuple[bytes, str]:
    state = request.app.state
    if "openapi" not in state:
        content = openapi.render(openapi.document(request.app))
        state.openapi = content, hashlib.sha256(content).hexdigest()[:32]
    described: tuple[bytes, str] = state.openapi
    return described


routes: list[HTTPRouteHandler] = [get_health, get_readiness, get_metrics, get_meta, get_openapi]
