"""`/v1/schedules/{schedule}/backfills`: slots of past days that are run, or run again."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import json_answer
from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.list_queries import PageQuery
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.schedule_paths import SCHEDULE, SchedulePath
from service.api.transactions import actor_of, read, settings_of, write
from service.db.engine import Connection
from service.jobs import backfills
from service.jobs.backfill_documents import (
    MAX_SLOTS,
    BackfillIn,
    BackfillOut,
    BackfillPage,
    BackfillPlanOut,
)

TAG = "Schedules"
BACKFILLS = f"{SCHEDULE}/backfills"
BACKFILL_EXAMPLES: dict[str, Any] = {
    "what was missed in a week": {"first_on": "2026-11-01", "last_on": "2026-11-07"},
    "what has failed, two at a time, the newest first": {
        "first_on": "2026-11-01",
        "last_on": "2026-11-28",
        "reprocess": "failed",
        "newest_first": True,
        "max_running": 2,
    },
}


class BackfillPath(SchedulePath, frozen=True, kw_only=True):
    """The backfill in the path."""

    backfill_id: Annotated[UUID, Meta(description="Id of the backfill.")]


class BackfillQuery(Struct, frozen=True, kw_only=True):
    """How the backfill is taken."""

    validate_only: Annotated[
        bool,
        Meta(description="List the slots and estimate points and time; store nothing (200)."),
    ] = False


@operation(
    "POST",
    BACKFILLS,
    Contract(
        operation_id="create_backfill",
        scope="schedules:write",
        summary="Run the slots of past days, or run them again",
        description=f"At most {MAX_SLOTS} slots, none of them in the future. A slot that is run "
        "again keeps its run id; the batch and the report of the earlier attempt stay. The "
        "schedule's concurrency policy is not asked. While the schedule is paused nothing begins. "
        "Where no slot is to run the answer is 422; `validate_only` lists them and why. So it is "
        "where the batch would be refused, such as for a profile that was archived.",
        tag=TAG,
        path=SchedulePath,
        body=BackfillIn,
        body_examples=BACKFILL_EXAMPLES,
        query=BackfillQuery,
        idempotent=True,
        problems=(503,),
        answers={
            202: Answer(
                description="Its runs will begin",
                body=BackfillOut,
                headers=("Location", "Retry-After"),
            ),
            200: Answer(
                description="What it would do (`validate_only`; nothing was stored)",
                body=BackfillPlanOut,
            ),
        },
    ),
)
async def create_backfill(request: ApiRequest) -> ApiResponse:
    """Check a backfill, or store it and wake the scheduler."""
    query = read_query(request, BackfillQuery)
    key = read_path(request, SchedulePath).schedule
    document = await read_body(request, BackfillIn)
    actor, limits = actor_of(request), settings_of(request).limits
    now = datetime.now(UTC)
    if query.validate_only:
        return json_answer(
            await read(
                request,
                lambda c: backfills.check(c, actor, key, document, limits=limits, now=now),
            )
        )

    def create(connection: Connection) -> Created:
        backfill = backfills.create(connection, actor, key, document, limits=limits, now=now)
        return Created(
            document=backfill,
            status=202,
            headers={
                "Location": f"/v1/schedules/{backfill.schedule}/backfills/{backfill.id}",
                "Retry-After": "1",
            },
        )

    answer = await create_once(request, create)
    request.app.state.engine.wake()
    return answer


@operation(
    "GET",
    BACKFILLS,
    Contract(
        operation_id="list_backfills",
        scope="schedules:read",
        summary="List the backfills of a schedule, newest first",
        tag=TAG,
        path=SchedulePath,
        query=PageQuery,
        answers={
            200: Answer(description="A page of backfills", body=BackfillPage, headers=("Link",))
        },
    ),
)
async def list_backfills(request: ApiRequest) -> ApiResponse:
    """Answer with a page of backfills."""
    query = read_query(request, PageQuery)
    key = read_path(request, SchedulePath).schedule
    return await page_answer(
        request,
        query,
        lambda c, size, token: backfills.list_page(
            c, actor_of(request), key, page_size=size, page_token=token
        ),
    )


@operation(
    "GET",
    f"{BACKFILLS}/{{backfill_id:str}}",
    Contract(
        operation_id="get_backfill",
        scope="schedules:read",
        summary="Read how far a backfill is",
        tag=TAG,
        path=BackfillPath,
        answers={200: Answer(description="The backfill", body=BackfillOut)},
    ),
)
async def get_backfill(request: ApiRequest) -> ApiResponse:
    """Answer with the backfill."""
    refuse_query(request)
    path = read_path(request, BackfillPath)
    return json_answer(
        await read(
            request,
            lambda c: backfills.get(c, actor_of(request), path.schedule, path.backfill_id),
        )
    )


@operation(
    "POST",
    f"{BACKFILLS}/{{backfill_id:str}}/cancellation",
    Contract(
        operation_id="cancel_backfill",
        scope="schedules:write",
        summary="Cancel a backfill; what it has computed is kept",
        description="Nothing more of it begins, and what computes is canceled. Repeating it is "
        "harmless; a backfill that has ended answers 409.",
        tag=TAG,
        path=BackfillPath,
        problems=(409,),
        answers={202: Answer(description="It is or will be canceled", body=BackfillOut)},
    ),
)
async def cancel_backfill(request: ApiRequest) -> ApiResponse:
    """Cancel the backfill."""
    refuse_query(request)
    path = read_path(request, BackfillPath)
    backfill = await write(
        request,
        lambda c: backfills.cancel(
            c, actor_of(request), path.schedule, path.backfill_id, datetime.now(UTC)
        ),
    )
    request.app.state.engine.wake()
    return json_answer(backfill, status=202)


routes: list[HTTPRouteHandler] = [
    create_backfill,
    list_backfills,
    get_backfill,
    cancel_backfill,
]
