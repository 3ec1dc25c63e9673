"""Make reports: the engine's task, which may be killed anywhere and makes one report all the same.

Everything is read from one snapshot and written in one transaction, with the end of the run and
the deliveries that tell of it: whoever comes second finds the report ended, and leaves no trace.
"""

from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from service.db import reports, schedule_runs
from service.db.engine import Connection, Database, Row
from service.errors import TrainardError
from service.jobs import run_ends
from service.jobs.actors import Actor
from service.jobs.reason_sentences import say
from service.jobs.report_collecting import Collected, collect
from service.jobs.report_store import packed
from service.jobs.task import Task


def run(database: Database, report_id: UUID) -> None:
    """Make the report, unless it has ended."""
    with database.read() as connection:
        row = reports.find_report(connection, report_id)
    if row is None or row.state not in reports.UNFINISHED:
        return
    with database.write() as connection:
        if not reports.begin(connection, report_id, datetime.now(UTC)):
            return
    try:
        with database.read() as connection:
            collected = collect(connection, _maker(row), row, datetime.now(UTC))
    except TrainardError as error:
        # A batch was deleted since, or the like: trying again would not help.
        with database.write() as connection:
            fail(connection, report_id, error.detail)
        return
    finish(database, row, collected)


def finish(database: Database, row: Row[Any], collected: Collected) -> bool:
    """Write the report, and end its run; whether it was still wanted."""
    stored = packed(collected.report)
    now = datetime.now(UTC)
    with database.write() as connection:
        if not reports.end(
            connection,
            row.id,
            state="succeeded",
            now=now,
            document=stored.document,
            sha256=stored.sha256,
        ):
            return False
        reports.insert_changes(connection, list(_change_rows(row, collected, now)))
        if row.run_id is not None:
            run_ends.end_with_report(connection, row.run_id, collected.report, now=now)
    return True


def fail(connection: Connection, report_id: UUID, reason: str) -> None:
    """End the report and its run with the reason; nothing happens to one that has ended."""
    now = datetime.now(UTC)
    row = reports.find_report(connection, report_id)
    if row is None or not reports.end(
        connection, report_id, state="failed", now=now, failure=reason
    ):
        return
    found = None if row.run_id is None else schedule_runs.find_run(connection, row.run_id)
    if found is not None:
        run_ends.end_without_report(
            connection, found, "failed", say("report_failed", detail=reason), now
        )


def _maker(row: Row[Any]) -> Actor:
    """The program: a document holds all money, and readers get what they may see."""
    return Actor(team_id=row.team_id, name=row.created_by, principal="program:report")


def _change_rows(row: Row[Any], collected: Collected, now: datetime) -> list[dict[str, Any]]:
    return [
        {
            "team_id": row.team_id,
            "created_at": now,
            "report_id": row.id,
            "batch_id": row.batch_id,
            "past_batch_id": row.baseline_batch_id,
            **msgspec.to_builtins(change),
        }
        for change in collected.changes
    ]


def _task(name: str, *, is_nightly: bool) -> Task:
    return Task(
        name=name,
        run=run,
        fail=fail,
        unsent=partial(reports.list_unsent, is_nightly=is_nightly),
        mark_sent=reports.mark_sent,
        num_unfinished=partial(reports.num_waiting, is_nightly=is_nightly),
        is_nightly=is_nightly,
    )


TASK = _task("report", is_nightly=False)
NIGHTLY_TASK = _task("nightly_report", is_nightly=True)
