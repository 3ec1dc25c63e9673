"""`/v1/schedules/{schedule}/runs`: the ledger of slots, and a run of now."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from service.api.answers import json_answer
from service.api.concurrency import etag_of
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.list_queries import Moment, PageQuery, in_utc
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.schedule_paths import SCHEDULE, SchedulePath
from service.api.transactions import actor_of, read, write
from service.db.engine import Connection
from service.db.schedule_runs import RunFilter
from service.jobs import runs
from service.jobs.run_documents import RunKind, RunOut, RunPage, RunState

TAG = "Schedules"
RUNS = f"{SCHEDULE}/runs"


class RunPath(SchedulePath, frozen=True, kw_only=True):
    """The run in the path."""

    run_id: Annotated[UUID, Meta(description="Id of the run.")]


class RunListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the ledger."""

    state: Annotated[RunState, Meta(description="Only runs in this state.")] | None = None
    kind: Annotated[RunKind, Meta(description="Only runs of this kind.")] | None = None
    backfill: Annotated[UUID, Meta(description="Only runs of this backfill.")] | None = None
    scheduled_after: Annotated[Moment, Meta(description="Only slots after this moment.")] | None = (
        None
    )
    scheduled_before: (
        Annotated[Moment, Meta(description="Only slots before this moment.")] | None
    ) = None


@operation(
    "GET",
    RUNS,
    Contract(
        operation_id="list_runs",
        scope="schedules:read",
        summary="List the slots of a schedule and what became of them, the newest first",
        description="Every slot that came is there: those that were missed, skipped or replaced "
        "too, with the reason. The ledger of a deleted schedule is read by its id.",
        tag=TAG,
        path=SchedulePath,
        query=RunListQuery,
        answers={200: Answer(description="A page of runs", body=RunPage, headers=("Link",))},
    ),
)
async def list_runs(request: ApiRequest) -> ApiResponse:
    """Answer with a page of runs."""
    query = read_query(request, RunListQuery)
    key = read_path(request, SchedulePath).schedule
    wanted = RunFilter(
        state=query.state,
        kind=query.kind,
        backfill_id=query.backfill,
        scheduled_after=in_utc("scheduled_after", query.scheduled_after),
        scheduled_before=in_utc("scheduled_before", query.scheduled_before),
    )
    return await page_answer(
        request,
        query,
        lambda c, size, token: runs.list_page(
            c, actor_of(request), key, wanted, page_size=size, page_token=token
        ),
    )


@operation(
    "POST",
    RUNS,
    Contract(
        operation_id="create_run",
        scope="schedules:write",
        summary="Run a schedule now",
        description="Its slot is the moment of the request. It begins as the concurrency policy "
        "allows, also while the schedule is paused, and is reported on and delivered as a run of "
        "the night is. 409 while 20 that were begun so have not ended.",
        tag=TAG,
        path=SchedulePath,
        idempotent=True,
        problems=(503,),
        answers={
            202: Answer(
                description="It will begin",
                body=RunOut,
                headers=("Location", "ETag", "Retry-After"),
            )
        },
    ),
)
async def create_run(request: ApiRequest) -> ApiResponse:
    """Write the run and wake the scheduler."""
    refuse_query(request)
    key = read_path(request, SchedulePath).schedule
    actor = actor_of(request)

    def create(connection: Connection) -> Created:
        run = runs.run_now(connection, actor, key, datetime.now(UTC))
        return Created(
            document=run,
            status=202,
            headers={
                "Location": _address(run),
                "ETag": etag_of(run.version),
                "Retry-After": "1",
            },
        )

    answer = await create_once(request, create)
    request.app.state.engine.wake()
    return answer


@operation(
    "GET",
    f"{RUNS}/{{run_id:str}}",
    Contract(
        operation_id="get_run",
        scope="schedules:read",
        summary="Read a run: its state and reason, its batch, its report",
        tag=TAG,
        path=RunPath,
        answers={200: Answer(description="The run", body=RunOut, headers=("ETag",))},
    ),
)
async def get_run(request: ApiRequest) -> ApiResponse:
    """Answer with the run."""
    refuse_query(request)
    path = read_path(request, RunPath)
    run = await read(request, lambda c: runs.get(c, actor_of(request), path.schedule, path.run_id))
    return json_answer(run, headers={"ETag": etag_of(run.version)})


@operation(
    "POST",
    f"{RUNS}/{{run_id:str}}/cancellation",
    Contract(
        operation_id="cancel_run",
        scope="schedules:write",
        summary="Cancel a run; finished points of its batch are kept",
        description="A run that has not begun never will. Repeating it is harmless; a run that is "
        "computed already answers 409.",
        tag=TAG,
        path=RunPath,
        problems=(409,),
        answers={202: Answer(description="It is or will be canceled", body=RunOut)},
    ),
)
async def cancel_run(request: ApiRequest) -> ApiResponse:
    """Cancel the run."""
    refuse_query(request)
    path = read_path(request, RunPath)
    run = await write(
        request,
        lambda c: runs.cancel(c, actor_of(request), path.schedule, path.run_id, datetime.now(UTC)),
    )
    request.app.state.engine.wake()
    return json_answer(run, status=202)


def _address(run: RunOut) -> str:
    return f"/v1/schedules/{run.schedule}/runs/{run.id}"


routes: list[HTTPRouteHandler] = [list_runs, create_run, get_run, cancel_run]
