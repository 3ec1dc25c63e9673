"""Which run another one is compared with, by what its schedule says."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import msgspec

from service.db import run_queue, schedule_runs
from service.db.engine import Connection, Row
from service.jobs.run_documents import BaselineMissing
from service.jobs.schedule_documents import Baseline, DatedRun, NamedRun
from service.jobs.zone_data import zone

LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class FoundBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """The run to compare with, or why there is none."""

    run: Row[Any] | None = None
    missing: BaselineMissing | None = None


def find_baseline(
    connection: Connection, run: Row[Any], wanted: Baseline | None, zone_name: str
) -> FoundBaseline:
    """The baseline of a run: one with results, whose batch is not deleted."""
    if wanted is None:
        return FoundBaseline(missing="none_asked")
    if isinstance(wanted, NamedRun):
        return _named(connection, run, wanted)
    if isinstance(wanted, DatedRun):
        found = run_queue.newest_with_results(
            connection, run.schedule_id, until=end_of(wanted, zone_name), other_than=run.id
        )
        return FoundBaseline(run=found, missing=None if found else "no_run_by_date")
    found = run_queue.newest_with_results(connection, run.schedule_id, before=run.scheduled_for)
    return FoundBaseline(run=found, missing=None if found else "no_earlier_run")


def _named(connection: Connection, run: Row[Any], wanted: NamedRun) -> FoundBaseline:
    if wanted.run_id == run.id:
        return FoundBaseline(missing="named_run_itself")
    found = run_queue.with_results(connection, run.schedule_id, wanted.run_id)
    if found is not None:
        return FoundBaseline(run=found)
    named = schedule_runs.get_run(connection, run.team_id, wanted.run_id)
    is_ours = named is not None and named.schedule_id == run.schedule_id
    return FoundBaseline(missing="named_run_without_results" if is_ours else "named_run_gone")


def end_of(wanted: DatedRun, zone_name: str) -> datetime:
    """The last moment of the day in the zone, as far as the calendar reaches."""
    try:
        midnight = datetime.combine(wanted.on + timedelta(days=1), time(), zone(zone_name))
        return midnight.astimezone(UTC) - timedelta(microseconds=1)
    except OverflowError:
        return LAST_MOMENT
