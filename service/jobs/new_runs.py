"""New rows of the ledger of slots."""

from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec
import uuid_utils.compat

from service.db.engine import Row
from service.jobs.batch_documents import Notice
from service.jobs.occurrences import Slot
from service.jobs.reason_sentences import say
from service.jobs.run_documents import RunKind
from service.jobs.schedule_documents import ScheduleIn
from service.jobs.zone_data import TZDATA_VERSION

# Its slot had been missed, and the misfire policy chose it to run all the same
LATE: Final = "late_run"


def new_run(
    schedule: Row[Any],
    definition: ScheduleIn,
    slot: Slot,
    *,
    kind: RunKind,
    now: datetime,
    created_by: str,
    warnings: tuple[Notice, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    """The row of a slot that is due, unless `more` says otherwise."""
    row = {
        "id": uuid_utils.compat.uuid7(),
        "team_id": schedule.team_id,
        "created_at": now,
        "created_by": created_by,
        "updated_at": now,
        "version": 1,
        "schedule_id": schedule.id,
        "scheduled_for": slot.at,
        "local_time": slot.local.isoformat(timespec="seconds"),
        "zone": schedule.zone,
        "kind": kind,
        "backfill_id": None,
        "state": "due",
        "reason": None,
        "attempt": 1,
        "start_on": first_day(slot, definition),
        "earlier_batches": [],
        "tzdata_version": TZDATA_VERSION,
        "warnings": msgspec.to_builtins([*_clock_notices(slot), *warnings]),
    }
    row |= more
    return {**row, "ended_at": None if row["state"] == "due" else now}


def first_day(slot: Slot, definition: ScheduleIn) -> date:
    """The first day of the loss window, as far as the calendar reaches."""
    try:
        return slot.local.date() + timedelta(days=definition.start_in_days)
    except OverflowError:
        return date.max if definition.start_in_days > 0 else date.min


def _clock_notices(slot: Slot) -> list[Notice]:
    if slot.dst is None:
        return []
    code = f"dst_{slot.dst}"
    return [Notice(pointer="", code=code, detail=say(code, clock=f"{slot.local:%H:%M}"))]
