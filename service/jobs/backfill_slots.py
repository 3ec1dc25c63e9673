"""Which slots a backfill runs: those of its days, by what the ledger has of them."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec

from service.db import slot_ledger
from service.db.engine import Connection, Row
from service.errors import FieldFault, InvalidError
from service.jobs.backfill_documents import MAX_SLOTS, BackfillIn, PlannedSlot, Reprocess
from service.jobs.occurrences import Slot, slots_between
from service.jobs.reason_sentences import coded, say
from service.jobs.run_documents import NEVER_BEGUN, UNFINISHED_RUNS

MAX_DAYS: Final = 3_660
FIRST_DAY: Final = date(1970, 1, 1)
DAYS_AT_ONCE: Final = 30


class ChosenSlot(msgspec.Struct, frozen=True, kw_only=True):
    """A slot, its row of the ledger if it has one, and whether it is run, and why."""

    slot: Slot
    row: Row[Any] | None
    runs: bool
    reason: str

    def shown(self) -> PlannedSlot:
        """As a dry run shows it."""
        row = self.row
        return PlannedSlot(
            scheduled_for=self.slot.at,
            local_time=self.slot.local.isoformat(timespec="seconds"),
            dst=self.slot.dst,
            runs=self.runs,
            reason=self.reason,
            reason_coded=coded(self.reason),
            run_id=None if row is None else row.id,
            state=None if row is None else row.state,
            attempt=None if row is None else row.attempt,
            batch_id=None if row is None else row.batch_id,
        )


def choose_slots(
    connection: Connection, schedule: Row[Any], body: BackfillIn, now: datetime
) -> list[ChosenSlot]:
    """The slots of the days, oldest first; raises `InvalidError` for days that cannot be taken."""
    slots = _slots(schedule, body, now)
    found = slot_ledger.runs_of_slots(connection, schedule.id, [slot.at for slot in slots])
    return [_chosen(slot, found.get(slot.at), body.reprocess) for slot in slots]


def _slots(schedule: Row[Any], body: BackfillIn, now: datetime) -> list[Slot]:
    if body.last_on < body.first_on:
        raise _invalid("/last_on", "before_first", f"{body.last_on} is before {body.first_on}")
    if body.first_on < FIRST_DAY:
        raise _invalid("/first_on", "too_early", f"{body.first_on} is before {FIRST_DAY}")
    # Whatever the zone: its days are not that far from those of UTC.
    if body.last_on > now.date() + timedelta(days=2):
        raise _invalid("/last_on", "slot_in_future", f"{body.last_on} has not come yet")
    days = (body.last_on - body.first_on).days + 1
    if days > MAX_DAYS:
        raise _invalid("/last_on", "range_too_long", f"{days} days, but the limit is {MAX_DAYS}")
    slots: list[Slot] = []
    first = body.first_on
    # A part at a time: of quarters of an hour there are hundreds of thousands.
    while first <= body.last_on and len(slots) <= MAX_SLOTS:
        last = min(first + timedelta(days=DAYS_AT_ONCE - 1), body.last_on)
        slots += slots_between(schedule.cron, schedule.zone, first, last)
        first = last + timedelta(days=1)
    _refuse_unfit(slots, body, now)
    return slots


def _refuse_unfit(slots: Sequence[Slot], body: BackfillIn, now: datetime) -> None:
    days = f"from {body.first_on} to {body.last_on}"
    if not slots:
        raise _invalid("/first_on", "no_slots", f"the schedule has no slot {days}")
    if slots[-1].at > now:
        first = next(slot for slot in slots if slot.at > now)
        detail = f"the slot of {first.local.isoformat()} has not come yet"
        raise _invalid("/last_on", "slot_in_future", detail)
    if len(slots) > MAX_SLOTS:
        detail = f"there are more than {MAX_SLOTS} slots {days}, which is the limit"
        raise _invalid("/last_on", "too_many_slots", detail)


def _chosen(slot: Slot, row: Row[Any] | None, reprocess: Reprocess) -> ChosenSlot:
    if row is None:
        return ChosenSlot(slot=slot, row=None, runs=True, reason=say("not_in_ledger"))
    if row.state in UNFINISHED_RUNS:
        return ChosenSlot(slot=slot, row=row, runs=False, reason=say("not_ended"))
    wanted = _again(row.state, reprocess)
    return ChosenSlot(
        slot=slot,
        row=row,
        runs=wanted,
        reason=say("reprocess", state=row.state, reprocess=reprocess),
    )


def _again(state: str, reprocess: Reprocess) -> bool:
    """Whether a slot that has ended in this state is run again."""
    if state in NEVER_BEGUN:
        return True
    return reprocess == "all" or (reprocess == "failed" and state != "succeeded")


def _invalid(pointer: str, code: str, detail: str) -> InvalidError:
    return InvalidError(detail, errors=[FieldFault(pointer=pointer, code=code, detail=detail)])
