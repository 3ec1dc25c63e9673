"""Prices the runs of a schedule again, with the rates of now: another view of the same history.

What each run was first priced with is shown for ever; histories show the new prices by
`pricing=newest` (design page "Decisions", 15).
"""

from datetime import date, datetime
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct, field

from service.db import histories
from service.db.engine import Connection
from service.db.histories import RunSlots
from service.errors import FieldFault, InvalidError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.batch_documents import TERMINAL_STATES, Currency
from service.jobs.cost_access import require_costs
from service.jobs.kept_schedules import require_kept
from service.jobs.repricings import PricingOut, RepricingIn, reprice

MOST_RUNS: Final = 366
MOST_ITEMS: Final = 100_000
"""Items of all runs together: all are priced by one transaction."""


class RepricingsIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which slots of the schedule, by their local days, and the currency."""

    since: Annotated[date, Meta(description="First day that counts.", examples=["2026-12-01"])] = (
        field(name="from")
    )
    until: Annotated[date, Meta(description="The day after the last.", examples=["2027-01-01"])]
    currency: Annotated[Currency, Meta(description="Default: that of each batch.")] | None = None


class RunRepricing(Struct, frozen=True, kw_only=True):
    """The new pricing of one run."""

    run_id: UUID
    scheduled_for: datetime
    batch_id: UUID
    pricing: PricingOut


class RepricingsOut(Struct, frozen=True, kw_only=True):
    """The new pricings, the oldest slot first."""

    schedule_id: UUID
    items: list[RunRepricing]
    runs_without_results: Annotated[
        dict[str, int],
        Meta(description="Slots that could not be priced, by the state of their run."),
    ]


def reprice_runs(
    connection: Connection, actor: Actor, key: str, document: RepricingsIn
) -> RepricingsOut:
    """Make another pricing of each ended run in these days, at the newest attempt.

    Raises `ForbiddenError` unless the actor sees money, `NotFoundError`, and `InvalidError` for
    days that cannot be, for too many runs, and without a currency or with an unknown one.
    """
    require_costs(actor, "to price the runs of a schedule")
    schedule = require_kept(connection, actor, key)
    if document.since >= document.until:
        raise _refused(
            "/until",
            "empty_range",
            f"until is {document.until}, which is not after from {document.since}",
        )
    found = histories.list_slots(
        connection,
        schedule.id,
        RunSlots(first_on=document.since, before_on=document.until),
        limit=MOST_RUNS + 1,
    )
    if len(found) > MOST_RUNS:
        raise _refused(
            "/from", "too_many_runs", f"more than {MOST_RUNS} runs are in these days: ask for fewer"
        )
    wanted = {slot.batch_id for slot in found if slot.batch_id is not None}
    ended = {
        row.id: row
        for row in histories.list_ended_batches(connection, actor.team_id, wanted, None)
        if row.state in TERMINAL_STATES
    }
    num_items = sum(row.items_total for row in ended.values())
    if num_items > MOST_ITEMS:
        raise _refused(
            "/from",
            "too_many_items",
            f"the runs have {num_items} items, but at most {MOST_ITEMS} are priced at once",
        )
    made, missing = [], dict[str, int]()
    for slot in found:
        if slot.batch_id not in ended:
            missing[slot.state] = missing.get(slot.state, 0) + 1
            continue
        pricing = reprice(connection, actor, slot.batch_id, RepricingIn(currency=document.currency))
        made.append(
            RunRepricing(
                run_id=slot.id,
                scheduled_for=slot.scheduled_for,
                batch_id=slot.batch_id,
                pricing=pricing,
            )
        )
    out = RepricingsOut(schedule_id=schedule.id, items=made, runs_without_results=missing)
    audit.record(
        connection,
        actor,
        action="reprice_schedule",
        subject=f"schedule/{schedule.slug}",
        after=out,
        detail=f"{len(made)} runs from {document.since} until {document.until}",
    )
    return out


def _refused(pointer: str, code: str, detail: str) -> InvalidError:
    return InvalidError(detail, errors=[FieldFault(pointer=pointer, code=code, detail=detail)])
