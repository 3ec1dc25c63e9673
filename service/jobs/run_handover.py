"""From the end of a run's batch to its report, or to the end of the run where there is none."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from service.db import batches, run_queue, schedule_runs, slot_ledger
from service.db.engine import Connection, Database, OperationalError, Row
from service.jobs.reason_sentences import say
from service.jobs.report_queue import queue_for_run
from service.jobs.run_baselines import find_baseline
from service.jobs.run_documents import RunSettings
from service.jobs.run_ends import BY_BATCH_STATE, end_without_report

RUNS_AT_ONCE: Final = 50
# A report of them is made even if no headline has a result: it says what has failed.
REPORTED: Final = ("succeeded", "partially_failed")

log = structlog.get_logger()


def hand_over(
    database: Database,
    now: datetime,
    *,
    at_once: int = RUNS_AT_ONCE,
    is_stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Ask for the reports of runs whose batch has ended; how many runs went on.

    At most so many `at_once`, since slots that come meanwhile wait for it. Those that cannot go
    on do not count: else enough of them would keep all others from it.
    """
    with database.read() as connection:
        ready = run_queue.runs_to_hand_over(connection)
    changed = 0
    for run_id in ready:
        if is_stopping() or changed >= at_once:
            break
        try:
            with database.write() as connection:
                run = schedule_runs.lock_run(connection, run_id)
                if run is not None and run.state == "running":
                    changed += _hand_over(connection, run, now)
        except OperationalError:
            raise
        except Exception:
            # One run that cannot be handed over must not keep the others from it.
            log.exception("run_not_handed_over", run=str(run_id))
    return changed


def _hand_over(connection: Connection, run: Row[Any], now: datetime) -> bool:
    batch = batches.find_batch(connection, run.batch_id)
    if batch is None or batch.deleted_at is not None:
        reason = say("batch_deleted")
        return end_without_report(connection, run, "failed", reason, now)
    if batch.state in batches.UNFINISHED:
        return False
    if batch.state in REPORTED or run_queue.has_headline(connection, batch.id):
        return _ask_for_report(connection, run, now)
    reason = {
        "canceled": say("batch_canceled"),
        "expired": say("batch_expired"),
    }.get(batch.state, batch.failure or say("no_point"))
    return end_without_report(connection, run, BY_BATCH_STATE[batch.state], reason, now)


def _ask_for_report(connection: Connection, run: Row[Any], now: datetime) -> bool:
    schedule = slot_ledger.find_schedule(connection, run.schedule_id)
    settings = msgspec.convert(run.settings, RunSettings)
    found = find_baseline(connection, run, settings.baseline, run.zone)
    report_id = queue_for_run(
        connection,
        run,
        name=schedule.name,
        baseline=found.run,
        baseline_missing=found.missing,
        now=now,
    )
    return schedule_runs.change_run(
        connection,
        run.id,
        expected=("running",),
        now=now,
        state="reporting",
        report_id=report_id,
        baseline_run_id=found.run.id if found.run is not None else None,
        baseline_missing=found.missing,
    )
