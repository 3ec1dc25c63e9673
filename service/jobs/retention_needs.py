"""Which old batches are still needed, so that no retention takes them away.

A schedule compares its next run with one of them, or a run or a report that has not ended reads it.
Without them the next report would silently be compared with another night, or with none.
"""

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


def schedule_naming(connection: Connection, batch_id: UUID) -> str | None:
    """The slug of the schedule whose baseline is the batch's run, by its id."""
    run = schedule_runs.run_of_batch(connection, batch_id)
    if run is None:
        return None
    schedule = slot_ledger.find_schedule(connection, run.schedule_id)
    wanted = schedule.definition.get("baseline") or {}
    is_named = wanted.get("kind") == "run" and wanted.get("run_id") == str(run.id)
    return run.schedule_slug if is_named and schedule.deleted_at is None else None


def _baseline_of_next(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    """The run with results that the next run of a schedule will be compared with."""
    wanted = msgspec.convert(row.definition.get("baseline"), Baseline | None)
    if wanted is None:
        return None
    if isinstance(wanted, NamedRun):
        return run_queue.with_results(connection, row.id, wanted.run_id)
    until = end_of(wanted, row.zone) if isinstance(wanted, DatedRun) else None
    return run_queue.newest_with_results(connection, row.id, until=until)
