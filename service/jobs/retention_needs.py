"""Which old batches are still needed, so that no retention takes them away.

A schedule compares its next run with one of them, or a run or a report that has not ended reads it.
Without them the next report would silently be compared with another night, or with none.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from service.db import retention, run_queue, schedule_runs, slot_ledger
from service.db.engine import Connection, Row
from service.jobs.run_baselines import end_of
from service.jobs.schedule_documents import Baseline, DatedRun, NamedRun


def needed_batches(connection: Connection) -> frozenset[UUID]:
    """Of all teams: a few for each schedule that is not deleted."""
    found = retention.batches_in_use(connection)
    for row in retention.list_schedules(connection):
        run = _baseline_of_next(connection, row)
        if run is not None:
            found.add(run.batch_id)
    return frozenset(found)


def schedule_naming(connection: Connection, batch_id: UUID, now: datetime) -> str | None:
    """The slug of the schedule whose baseline is the batch's run, by its id or by a day gone by.

    Until its day is over, a newer run may still take a dated one's place: as the previous run it
    may be deleted.
    """
    run = schedule_runs.run_of_batch(connection, batch_id)
    if run is None:
        return None
    schedule = slot_ledger.find_schedule(connection, run.schedule_id)
    wanted = msgspec.convert(schedule.definition.get("baseline"), Baseline | None)
    is_fixed = isinstance(wanted, NamedRun) or (
        isinstance(wanted, DatedRun) and end_of(wanted, schedule.zone) < now
    )
    if not is_fixed or schedule.deleted_at is not None:
        return None
    baseline = _baseline_of_next(connection, schedule)
    return run.schedule_slug if baseline is not None and baseline.id == run.id else None


def _baseline_of_next(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    """The run with results that the next run of a schedule will be compared with."""
    wanted = msgspec.convert(row.definition.get("baseline"), Baseline | None)
    if wanted is None:
        return None
    if isinstance(wanted, NamedRun):
        return run_queue.with_results(connection, row.id, wanted.run_id)
    until = end_of(wanted, row.zone) if isinstance(wanted, DatedRun) else None
    return run_queue.newest_with_results(connection, row.id, until=until)
