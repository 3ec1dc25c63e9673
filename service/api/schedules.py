"""`/v1/schedules`: what is computed every night, when, and to whom it is told."""

from datetime import UTC, datetime
from typing import Annotated, Any

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import empty_answer, json_answer
from service.api.bodies import read_json
from service.api.concurrency import etag_of, expected_version
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.examples import SCENARIO
from service.api.idempotency import Created, create_once
from service.api.list_queries import Moment, PageQuery, in_utc
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.schedule_paths import SCHEDULE, SCHEDULES, SchedulePath
from service.api.transactions import actor_of, read, settings_of, shows_no_costs, write
from service.db.engine import Connection
from service.db.schedules import ScheduleFilter
from service.jobs import schedule_changes, schedules
from service.jobs.schedule_costs import holds_money
from service.jobs.schedule_documents import ScheduleChangeIn, ScheduleIn
from service.jobs.schedule_views import OccurrenceList, ScheduleOut, SchedulePage, SchedulePlanOut

TAG = "Schedules"
MAX_OCCURRENCES = 200

SCHEDULE_EXAMPLES: dict[str, Any] = {
    "every night, against the night before": {
        "slug": "example-nightly",
        "name": "Nightly what-if",
        "cron": "30 2 * * *",
        "zone": "Europe/Paris",
        "batch": {
            "items": [{"custom_id": "one-slow", "name": "one slow GPU", "scenario": SCENARIO}]
        },
        "budget": {"gpu_hours_lost_per_30_days": 200_000},
    },
    "the last working day of a month, against a day": {
        "slug": "example-month-end",
        "name": "Month end",
        "cron": "0 18 LW * *",
        "zone": "America/New_York",
        "batch": {
            "items": [{"custom_id": "one-slow", "name": "one slow GPU", "scenario": SCENARIO}]
        },
        "baseline": {"kind": "date", "on": "2026-12-01"},
        "misfire_policy": "run_all",
        "concurrency_policy": "forbid",
        "report": {"language": "fr", "movers": 5},
    },
}


class ScheduleQuery(Struct, frozen=True, kw_only=True):
    """How the schedule is taken."""

    validate_only: Annotated[
        bool, Meta(description="Check it and show what it would do; store nothing (answers 200).")
    ] = False


class ScheduleListQuery(PageQuery, frozen=True, kw_only=True):
    """Filters of the list of schedules."""

    paused: Annotated[bool, Meta(description="Only paused ones, or only the others.")] | None = None
    zone: Annotated[str, Meta(max_length=64, description="Only those of this zone.")] | None = None
    slug_prefix: (
        Annotated[str, Meta(max_length=64, description="Only slugs that begin so.")] | None
    ) = None


class OccurrenceQuery(Struct, frozen=True, kw_only=True):
    """Which occurrences."""

    count: Annotated[
        int, Meta(ge=1, le=MAX_OCCURRENCES, description="How many; of 50 years at most.")
    ] = 20
    after: Annotated[Moment, Meta(description="Those after this moment; default: now.")] | None = (
        None
    )


@operation(
    "POST",
    SCHEDULES,
    Contract(
        operation_id="create_schedule",
        scope="schedules:write",
        reveals_costs=True,
        summary="Make a schedule: a batch that is computed and reported on again and again",
        description="Cron in the wall time of an IANA zone. The batch is planned as a submission "
        "would be, so that its faults are told now. A profile by slug is the newest revision of "
        "the night. A budget of money, and deliveries with money, need costs:read.",
        tag=TAG,
        body=ScheduleIn,
        body_examples=SCHEDULE_EXAMPLES,
        query=ScheduleQuery,
        idempotent=True,
        answers={
            201: Answer(description="Made", body=ScheduleOut, headers=("Location", "ETag")),
            200: Answer(
                description="What it would do (`validate_only`; nothing was stored)",
                body=SchedulePlanOut,
            ),
        },
    ),
)
async def create_schedule(request: ApiRequest) -> ApiResponse:
    """Check a schedule, or store it."""
    query = read_query(request, ScheduleQuery)
    document = await read_json(request)
    settings, actor = settings_of(request), actor_of(request)
    if query.validate_only:
        plan = await read(
            request,
            lambda c: schedule_changes.plan_schedule(c, actor, document, settings, now=_now()),
        )
        if not holds_money(plan.schedule.budget):
            shows_no_costs(request)
        return json_answer(plan)

    def create(connection: Connection) -> Created:
        made = schedule_changes.create_schedule(connection, actor, document, settings, now=_now())
        _note_costs(request, made)
        location = f"{SCHEDULES}/{made.slug}"
        return Created(document=made, headers={"Location": location, **_etag(made)})

    return await create_once(request, create)


@operation(
    "GET",
    SCHEDULES,
    Contract(
        operation_id="list_schedules",
        scope="schedules:read",
        reveals_costs=True,
        summary="List schedules with their next slot and last run, by slug",
        tag=TAG,
        query=ScheduleListQuery,
        answers={
            200: Answer(description="A page of schedules", body=SchedulePage, headers=("Link",))
        },
    ),
)
async def list_schedules(request: ApiRequest) -> ApiResponse:
    """Answer with a page of schedules."""
    query = read_query(request, ScheduleListQuery)
    wanted = ScheduleFilter(
        paused=query.paused, zone=query.zone, slug_prefix=query.slug_prefix or None
    )

    def page_of(connection: Connection, size: int, token: str | None) -> SchedulePage:
        page = schedules.list_page(
            connection, actor_of(request), wanted, page_size=size, page_token=token
        )
        _note_costs(request, *page.items)
        return page

    return await page_answer(request, query, page_of)


@operation(
    "GET",
    SCHEDULE,
    Contract(
        operation_id="get_schedule",
        scope="schedules:read",
        reveals_costs=True,
        summary="Read a schedule with its next slot and last run",
        description="The ETag is that of the schedule itself, for If-Match: slots that come and "
        "runs that end do not change it. Without costs:read a budget of money is withheld.",
        tag=TAG,
        path=SchedulePath,
        answers={200: Answer(description="The schedule", body=ScheduleOut, headers=("ETag",))},
    ),
)
async def get_schedule(request: ApiRequest) -> ApiResponse:
    """Answer with the schedule."""
    refuse_query(request)
    key = read_path(request, SchedulePath).schedule
    found = await read(request, lambda c: schedules.read_schedule(c, actor_of(request), key))
    return _shown(request, found)


@operation(
    "PATCH",
    SCHEDULE,
    Contract(
        operation_id="change_schedule",
        scope="schedules:write",
        reveals_costs=True,
        summary="Change a schedule",
        description="A field that is sent takes the place of the former one as a whole; what is "
        "not sent stays. Only what changes is checked. Another expression or zone, and the end of "
        "a pause, look for the next slot from now on. What has to do with money needs costs:read: "
        "a budget of money, and the items and deliveries of a schedule that sends money.",
        tag=TAG,
        path=SchedulePath,
        body=ScheduleChangeIn,
        body_examples={"an hour later": {"cron": "30 3 * * *"}, "no budget": {"budget": None}},
        needs_if_match=True,
        answers={200: Answer(description="The schedule", body=ScheduleOut, headers=("ETag",))},
    ),
)
async def change_schedule(request: ApiRequest) -> ApiResponse:
    """Change what the body names."""
    refuse_query(request)
    key = read_path(request, SchedulePath).schedule
    version = expected_version(request)
    document = await read_json(request)
    settings, actor = settings_of(request), actor_of(request)
    changed = await write(
        request,
        lambda c: schedule_changes.change_schedule(
            c, actor, key, document, settings, version=version, now=_now()
        ),
    )
    return _shown(request, changed)


@operation(
    "DELETE",
    SCHEDULE,
    Contract(
        operation_id="delete_schedule",
        scope="schedules:write",
        summary="Delete a schedule; its runs, reports and deliveries stay",
        description="Slots that wait are canceled, a run that has begun ends as it would have. "
        "The slug is free again.",
        tag=TAG,
        path=SchedulePath,
        needs_if_match=True,
        answers={204: Answer(description="It is deleted")},
    ),
)
async def delete_schedule(request: ApiRequest) -> ApiResponse:
    """Take the schedule away."""
    refuse_query(request)
    key = read_path(request, SchedulePath).schedule
    version = expected_version(request)
    await write(
        request,
        lambda c: schedule_changes.delete_schedule(
            c, actor_of(request), key, version=version, now=_now()
        ),
    )
    return empty_answer(204)


@operation(
    "POST",
    SCHEDULE + "/pause",
    Contract(
        operation_id="pause_schedule",
        scope="schedules:write",
        reveals_costs=True,
        summary="Pause a schedule: no slot comes until it is resumed",
        description="Without If-Match: to stop something must never wait. What has begun goes on. "
        "Repeating it is harmless.",
        tag=TAG,
        path=SchedulePath,
        answers={200: Answer(description="The schedule", body=ScheduleOut, headers=("ETag",))},
    ),
)
async def pause_schedule(request: ApiRequest) -> ApiResponse:
    """Pause the schedule."""
    refuse_query(request)
    key = read_path(request, SchedulePath).schedule
    paused = await write(
        request, lambda c: schedule_changes.pause_schedule(c, actor_of(request), key, now=_now())
    )
    return _shown(request, paused)


@operation(
    "DELETE",
    SCHEDULE + "/pause",
    Contract(
        operation_id="resume_schedule",
        scope="schedules:write",
        reveals_costs=True,
        summary="Resume a paused schedule, from its next slot on",
        description="What would have come meanwhile is not caught up: a backfill can do that. "
        "Repeating it with the current ETag changes nothing.",
        tag=TAG,
        path=SchedulePath,
        needs_if_match=True,
        answers={200: Answer(description="The schedule", body=ScheduleOut, headers=("ETag",))},
    ),
)
async def resume_schedule(request: ApiRequest) -> ApiResponse:
    """Resume the schedule."""
    refuse_query(request)
    key = read_path(request, SchedulePath).schedule
    version = expected_version(request)
    resumed = await write(
        request,
        lambda c: schedule_changes.resume_schedule(
            c, actor_of(request), key, version=version, now=_now()
        ),
    )
    return _shown(request, resumed)


@operation(
    "GET",
    SCHEDULE + "/occurrences",
    Contract(
        operation_id="list_occurrences",
        scope="schedules:read",
        summary="Show when a schedule comes: in UTC and in its zone",
        description="A wall time that does not exist on a night of change comes at the first "
        "moment after the gap, one that exists twice comes once; `dst` marks both. An expression "
        "of every hour goes on by elapsed time. Of a paused schedule: when it would come.",
        tag=TAG,
        path=SchedulePath,
        query=OccurrenceQuery,
        answers={200: Answer(description="The occurrences", body=OccurrenceList)},
    ),
)
async def list_occurrences(request: ApiRequest) -> ApiResponse:
    """Answer with the next occurrences."""
    query = read_query(request, OccurrenceQuery)
    key = read_path(request, SchedulePath).schedule
    after = in_utc("after", query.after) or _now()
    found = await read(
        request,
        lambda c: schedules.occurrences(c, actor_of(request), key, after=after, count=query.count),
    )
    return json_answer(found)


def _now() -> datetime:
    return datetime.now(UTC)


def _etag(schedule: ScheduleOut) -> dict[str, str]:
    return {"ETag": etag_of(schedule.version)}


def _note_costs(request: ApiRequest, *found: ScheduleOut) -> None:
    """Note where no money is in the answer, so that no reading of any is recorded."""
    if not any(holds_money(schedule.budget) for schedule in found):
        shows_no_costs(request)


def _shown(request: ApiRequest, schedule: ScheduleOut) -> ApiResponse:
    _note_costs(request, schedule)
    return json_answer(schedule, headers=_etag(schedule))


routes: list[HTTPRouteHandler] = [
    create_schedule,
    list_schedules,
    get_schedule,
    change_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
    list_occurrences,
]
