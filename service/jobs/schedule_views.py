"""Schedules as they are shown, with their next slot and what became of the last one."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from service.db import schedules as rows
from service.db.engine import Connection, Row
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchPlanOut, Notice
from service.jobs.cron_words import CronWords, words_of
from service.jobs.occurrences import Slot, slots_after
from service.jobs.recipients import shown_deliveries
from service.jobs.run_documents import RunState
from service.jobs.schedule_documents import (
    Baseline,
    BatchTemplate,
    Budget,
    ConcurrencyPolicy,
    DeliveryIn,
    MisfirePolicy,
    ReportSettings,
    ScheduleIn,
)
from service.jobs.schedule_warnings import warnings_of
from service.jobs.zone_data import zone

NOTES: Final = {
    "gap": "Clocks go forward: its wall time does not exist on this day, and this is the first "
    "moment after.",
    "overlap": "Clocks go back: this wall time exists twice on this day.",
}


class OccurrenceOut(Struct, frozen=True, kw_only=True):
    """A moment at which a schedule comes."""

    at: Annotated[datetime, Meta(description="In UTC.")]
    local: Annotated[str, Meta(description="The same in the schedule's zone, with its offset.")]
    dst: Annotated[
        Literal["gap", "overlap"] | None,
        Meta(description="Whether clocks change around it, and how; null on other days."),
    ]
    note: Annotated[str | None, Meta(description="What `dst` means, as a sentence.")]


class OccurrenceList(Struct, frozen=True, kw_only=True):
    """When a schedule comes next; of a paused one, when it would come."""

    items: list[OccurrenceOut]
    cron: str
    cron_words: Annotated[CronWords, Meta(description="The expression in words.")]
    zone: str
    paused: bool
    tzdata_version: str


class LastRunOut(Struct, frozen=True, kw_only=True):
    """What became of the newest slot in the ledger."""

    id: UUID
    state: RunState
    scheduled_for: datetime
    ended_at: datetime | None
    url: str


class ScheduleOut(Struct, frozen=True, kw_only=True):
    """A schedule, its next slot, and what became of the last one."""

    id: UUID
    slug: str
    name: str
    cron: str
    cron_words: Annotated[CronWords, Meta(description="The expression in words.")]
    zone: str
    batch: BatchTemplate
    start_in_days: int
    baseline: Baseline | None
    misfire_policy: MisfirePolicy
    misfire_max_runs: int
    misfire_grace_s: int
    concurrency_policy: ConcurrencyPolicy
    profiles_as_of: Literal["newest", "slot"]
    report: ReportSettings
    deliveries: Annotated[
        list[DeliveryIn],
        Meta(description="Mail addresses are `…@example.org` for those without schedules:write."),
    ]
    budget: Budget | None
    budget_withheld: Annotated[
        bool, Meta(description="There is a budget of money, which the reader may not see.")
    ]
    paused: bool
    paused_at: datetime | None
    paused_by: str | None
    next_occurrence: Annotated[
        OccurrenceOut | None, Meta(description="The next slot to come; null while it is paused.")
    ]
    last_run: Annotated[LastRunOut | None, Meta(description="Null before the first slot.")]
    warnings: Annotated[
        list[Notice], Meta(description="What is allowed, and yet may not be what was meant.")
    ]
    created_at: datetime
    created_by: str
    updated_at: datetime
    version: int
    occurrences_url: str
    runs_url: str
    backfills_url: str


class SchedulePage(Struct, frozen=True, kw_only=True):
    """A page of schedules, by slug."""

    items: list[ScheduleOut]
    next_page_token: str | None


class SchedulePlanOut(Struct, frozen=True, kw_only=True):
    """The answer to `validate_only=true`: nothing was stored."""

    schedule: Annotated[
        ScheduleIn, Meta(description="As it would be stored, everything written out.")
    ]
    next_occurrences: list[OccurrenceOut]
    batch: Annotated[BatchPlanOut, Meta(description="What a run of now would compute.")]
    warnings: Annotated[list[Notice], Meta(description="Of the schedule; the batch has its own.")]


def definition_of(row: Row[Any]) -> ScheduleIn:
    """What was sent for the schedule, with its changes since."""
    return msgspec.convert(document_of(row), ScheduleIn)


def document_of(row: Row[Any]) -> dict[str, Any]:
    """The same as builtins."""
    return {
        "slug": row.slug,
        "name": row.name,
        "cron": row.cron,
        "zone": row.zone,
        "paused": row.paused_at is not None,
        **row.definition,
    }


def occurrence_of(slot: Slot) -> OccurrenceOut:
    """A slot as it is shown."""
    return OccurrenceOut(
        at=slot.at,
        local=slot.local.isoformat(),
        dst=slot.dst,
        note=None if slot.dst is None else NOTES[slot.dst],
    )


def shown_schedules(
    connection: Connection, actor: Actor, found: Sequence[Row[Any]]
) -> list[ScheduleOut]:
    """The documents of the schedules, in the order given."""
    runs = rows.newest_runs(connection, [row.id for row in found])
    return [_shown(connection, row, actor, runs) for row in found]


def _shown(
    connection: Connection, row: Row[Any], actor: Actor, runs: Mapping[UUID, Row[Any]]
) -> ScheduleOut:
    address = f"/v1/schedules/{row.slug}"
    body = definition_of(row)
    is_withheld = holds_money(body.budget) and not actor.sees_costs
    return ScheduleOut(
        id=row.id,
        slug=row.slug,
        name=row.name,
        cron=row.cron,
        cron_words=words_of(row.cron),
        zone=row.zone,
        batch=body.batch,
        start_in_days=body.start_in_days,
        baseline=body.baseline,
        misfire_policy=body.misfire_policy,
        misfire_max_runs=body.misfire_max_runs,
        misfire_grace_s=body.misfire_grace_s,
        concurrency_policy=body.concurrency_policy,
        profiles_as_of=body.profiles_as_of,
        report=body.report,
        deliveries=shown_deliveries(actor, body.deliveries),
        budget=_without_money(body.budget) if is_withheld else body.budget,
        budget_withheld=is_withheld,
        paused=body.paused,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        next_occurrence=_next(row),
        last_run=_last_run(address, runs.get(row.id)),
        warnings=warnings_of(connection, row.team_id, body),
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        version=row.version,
        occurrences_url=f"{address}/occurrences",
        runs_url=f"{address}/runs",
        backfills_url=f"{address}/backfills",
    )


def holds_money(budget: Budget | None) -> bool:
    """Whether a budget of money is set."""
    return budget is not None and budget.cost_of_loss_per_30_days is not None


def _without_money(budget: Budget | None) -> Budget | None:
    if budget is None or budget.gpu_hours_lost_per_30_days is None:
        return None
    return Budget(gpu_hours_lost_per_30_days=budget.gpu_hours_lost_per_30_days)


def _next(row: Row[Any]) -> OccurrenceOut | None:
    if row.next_at is None:
        return None
    # As the slot was found, so that its note is there too; other data of zones may have moved it.
    before = row.next_at.timestamp() - 1
    tz = zone(row.zone)
    slot = next(slots_after(row.cron, row.zone, datetime.fromtimestamp(before, tz)), None)
    if slot is None or slot.at != row.next_at:
        slot = Slot(at=row.next_at, local=row.next_at.astimezone(tz))
    return occurrence_of(slot)


def _last_run(address: str, run: Row[Any] | None) -> LastRunOut | None:
    if run is None:
        return None
    return LastRunOut(
        id=run.id,
        state=run.state,
        scheduled_for=run.scheduled_for,
        ended_at=run.ended_at,
        url=f"{address}/runs/{run.id}",
    )
