"""The state, the limits and the description of the service."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, Any, Literal

import msgspec
from litestar.handlers import HTTPRouteHandler

from service.api import openapi
from service.api.answers import json_answer, raw_answer
from service.api.bodies import MAX_DEPTH
from service.api.concurrency import etag_of, not_modified
from service.api.contract import JSON, Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.parameters import refuse_query
from service.api.queue_metrics import render_queue
from service.api.queue_watch import QueueWatch
from service.api.transactions import database_of, in_thread, read, settings_of
from service.api.versions import VERSIONS, Versions
from service.db import migrate
from service.db.disk_space import MIN_FREE_BYTES, free_disk_bytes
from service.db.engine import OperationalError
from service.db.failures import disk_fault
from service.errors import UnavailableError
from service.jobs.evaluations import MAX_RANKS
from service.jobs.queue_state import QueueState, WorkerList, list_workers
from service.jobs.result_queries import MAX_FILTERS

METRICS = "text/plain; version=0.0.4"
TAG = "Service"
NO_WORKERS = "no worker is alive: batches are taken, and wait until one is (trainard worker)"

LATE_RUNS_S = 600.0
LATE_RUNS = "a run of a schedule is due for {:.0f} min and has not begun: see its reason"

MIB = 1024 * 1024

migration_head = cache(migrate.head)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ShownLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may ask for; more is refused with the numbers."""

    body_bytes: int
    items_per_batch: int
    points_per_batch: int
    draws_per_batch: Annotated[
        int,
        msgspec.Meta(
            description="Clusters drawn for the points of a batch whose spread needs it; of points "
            "whose steps are simulated one for 125 steps of single GPUs."
        ),
    ]
    page_size: int
    unfinished_batches: int
    event_streams: int
    export_streams: int
    comparison_streams: int
    stall_s: int
    wait_s: int
    requests_per_minute: Annotated[
        int, msgspec.Meta(description="Requests of a key or person; 0: as many as they like.")
    ]
    points_per_hour: Annotated[
        int, msgspec.Meta(description="Points in the batches of a team; 0: as many as it likes.")
    ]
    filters: Annotated[int, msgspec.Meta(description="Values of a repeated query parameter.")]
    query_bytes: int
    header_bytes: Annotated[
        int, msgspec.Meta(description="The address and all header fields of a request (431).")
    ]
    header_s: Annotated[
        int, msgspec.Meta(description="From the first byte of a request to the end of its header.")
    ]
    body_s: Annotated[
        int, msgspec.Meta(description="From there to the end of the body; slower is 408.")
    ]
    connections: Annotated[int, msgspec.Meta(description="Open at the same time; more are 503.")]
    schedules: Annotated[int, msgspec.Meta(description="Of a team, paused ones too.")]
    schedule_interval_minutes: Annotated[
        int, msgspec.Meta(description="Slots of a schedule are at least so far apart.")
    ]
    webhook_endpoints: Annotated[int, msgspec.Meta(description="Of a team.")]
    calibration_bytes: Annotated[
        int, msgspec.Meta(description="Of all files of one upload of observed timings.")
    ]
    calibration_files: Annotated[int, msgspec.Meta(description="Of one such upload.")]
    nesting: Annotated[int, msgspec.Meta(description="Levels of objects and lists in a body.")]
    ranks: int
    retention_days: Annotated[
        int,
        msgspec.Meta(description="Batches that ended longer ago are deleted; 0: kept for ever."),
    ]
    report_retention_days: Annotated[
        int, msgspec.Meta(description="The same of reports; 0: kept for ever.")
    ]
    delivery_retention_days: Annotated[
        int, msgspec.Meta(description="The same of the log of deliveries; 0: kept for ever.")
    ]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What this service is and what it takes."""

    versions: Versions
    limits: ShownLimits
    migration: str


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The service takes requests, and who computes its batches."""

    status: Literal["ok"] = "ok"
    database: Literal["sqlite", "postgresql"]
    migration: Annotated[str, msgspec.Meta(description="Revision of the tables.")]
    engine: Annotated[
        Literal["embedded", "client"],
        msgspec.Meta(description="embedded: this process computes; client: only workers do."),
    ]
    workers_alive: Annotated[int, msgspec.Meta(ge=0, description="Processes that compute.")]
    queue_age_s: Annotated[
        float,
        msgspec.Meta(ge=0, description="Age of the oldest batch of which no chunk was begun."),
    ]
    warnings: Annotated[
        tuple[str, ...], msgspec.Meta(description="What an operator should look at.")
    ] = ()


@operation(
    "GET",
    "/healthz",
    Contract(
        operation_id="get_health",
        scope=None,
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
        scope=None,
        summary="Whether requests can be served",
        description="503 when the database cannot be reached, its tables are of another version "
        "than the program, less than 4 MiB are free on the disk of a SQLite file, or batches are "
        "not looked after. That no worker lives is only a warning: batches are taken and wait.",
        tag=TAG,
        answers={200: Answer(description="They can", body=Readiness)},
    ),
)
async def get_readiness(request: ApiRequest) -> ApiResponse:
    """Compare the tables with the program."""
    refuse_query(request)
    try:
        found = await read(request, migrate.current_of)
    except OperationalError as error:
        detail = disk_fault(error) or "the database does not answer"
        raise UnavailableError(detail, problem="not-ready") from None
    if found != migration_head():
        raise UnavailableError(
            f"the tables are at revision {found or 'none'}, the program needs {migration_head()}: "
            "run trainard migrate",
            problem="not-ready",
        )
    await _refuse_full_disk(request)
    engine = request.app.state.engine
    if not engine.is_alive or engine.fault is not None:
        raise UnavailableError(
            f"batches are not looked after: {engine.fault or 'the engine has ended'}",
            problem="not-ready",
        )
    state = await _queue_state(request)
    if state is None:
        raise UnavailableError("the database does not answer", problem="not-ready")
    return json_answer(
        Readiness(
            database="sqlite" if database_of(request).is_sqlite else "postgresql",
            migration=found,
            engine=engine.role,
            workers_alive=state.workers_alive,
            queue_age_s=state.queue_age_s,
            warnings=tuple(_warnings(state)),
        )
    )


@operation(
    "GET",
    "/metrics",
    Contract(
        operation_id="get_metrics",
        scope="metrics:read",
        summary="Metrics of this process and of the queue for Prometheus",
        description="`trainard_http_…`, `trainard_evaluations` and `trainard_points` count this "
        "process; the others are of the whole service, whichever process is asked. While the "
        "database is away `trainard_database_up` is 0 and they are missing.",
        tag=TAG,
        answers={200: Answer(description="Text exposition format 0.0.4", media_types=(METRICS,))},
    ),
)
async def get_metrics(request: ApiRequest) -> ApiResponse:
    """Answer with the counters of this process and the state of the queue."""
    refuse_query(request)
    queue = render_queue(await _queue_state(request))
    return raw_answer(request.app.state.metrics.render() + queue, media_type=METRICS)


@operation(
    "GET",
    "/v1/workers",
    Contract(
        operation_id="list_workers",
        scope="service:read",
        summary="List the processes that compute batches",
        description="A process that serves a SQLite file is listed from its first batch on.",
        tag=TAG,
        answers={200: Answer(description="The oldest first", body=WorkerList)},
    ),
)
async def get_workers(request: ApiRequest) -> ApiResponse:
    """Answer with all processes and when they were last seen."""
    refuse_query(request)
    return json_answer(await read(request, lambda c: list_workers(c, datetime.now(UTC))))


@operation(
    "GET",
    "/v1/meta",
    Contract(
        operation_id="get_meta",
        scope="service:read",
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
    # More are refused by the schema, whatever the setting is.
    limits["filters"] = min(settings.limits.filters, MAX_FILTERS)
    return json_answer(
        About(
            versions=VERSIONS,
            limits=ShownLimits(
                **limits,
                nesting=MAX_DEPTH,
                ranks=MAX_RANKS,
                retention_days=settings.retention_days,
                report_retention_days=settings.report_retention_days,
                delivery_retention_days=settings.delivery_retention_days,
            ),
            migration=migration_head(),
        )
    )


@operation(
    "GET",
    "/openapi.json",
    Contract(
        operation_id="get_openapi",
        scope=None,
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


def _warnings(state: QueueState) -> Iterator[str]:
    if not state.workers_alive:
        yield NO_WORKERS
    if state.runs_due_age_s > LATE_RUNS_S:
        yield LATE_RUNS.format(state.runs_due_age_s / 60)


async def _refuse_full_disk(request: ApiRequest) -> None:
    """What is stored can still be read then, but nothing new be taken."""
    free = await in_thread(partial(free_disk_bytes, database_of(request)))
    if free is not None and free < MIN_FREE_BYTES:
        raise UnavailableError(
            f"the database's disk is full but for {free / MIB:.1f} MiB; at least "
            f"{MIN_FREE_BYTES / MIB:.0f} MiB must be free",
            problem="not-ready",
        )


async def _queue_state(request: ApiRequest) -> QueueState | None:
    """The queue as it is; a process that computes itself is alive before its first heartbeat."""
    watch: QueueWatch = request.app.state.queue_watch
    state = await watch.current()
    engine = request.app.state.engine
    if state is None or state.workers_alive or engine.role != "embedded" or not engine.is_alive:
        return state
    return msgspec.structs.replace(state, workers_alive=1)


def _described(request: ApiRequest) -> tuple[bytes, str]:
    state = request.app.state
    if "openapi" not in state:
        content = openapi.render(openapi.document(request.app))
        state.openapi = content, hashlib.sha256(content).hexdigest()[:32]
    described: tuple[bytes, str] = state.openapi
    return described


routes: list[HTTPRouteHandler] = [
    get_health,
    get_readiness,
    get_metrics,
    get_workers,
    get_meta,
    get_openapi,
]
