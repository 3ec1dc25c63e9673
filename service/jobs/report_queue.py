"""Have a report made: the row that the engine's task looks for."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import uuid_utils.compat

from service.db import reports
from service.db.engine import Connection, Row
from service.jobs.report_documents import MakingSettings
from service.jobs.schedule_documents import Budget, ReportSettings


def queue_for_run(
    connection: Connection,
    run: Row[Any],
    *,
    name: str,
    baseline: Row[Any] | None,
    baseline_missing: str | None,
    now: datetime,
) -> UUID:
    """Ask for the report of a run whose batch has ended; the id of the report.

    `run` is the row of the ledger with its batch and settings, `baseline` that of the run that it
    is compared with; without one `baseline_missing` says why. Wake the engine after the commit.
    """
    chosen = run.settings or {}
    settings = MakingSettings(
        report=msgspec.convert(chosen.get("report") or {}, ReportSettings),
        budget=msgspec.convert(chosen.get("budget"), Budget | None),
        baseline_missing=baseline_missing if baseline is None else None,
    )
    return insert(
        connection,
        {
            "team_id": run.team_id,
            "created_at": now,
            "created_by": run.created_by,
            "name": name,
            "batch_id": run.batch_id,
            "baseline_batch_id": None if baseline is None else baseline.batch_id,
            "run_id": run.id,
            "schedule_id": run.schedule_id,
        },
        settings,
    )


def insert(connection: Connection, row: dict[str, Any], settings: MakingSettings) -> UUID:
    """Write the row of a report that is still to be made; its id."""
    report_id: UUID = uuid_utils.compat.uuid7()
    values = {
        "id": report_id,
        "state": "queued",
        "settings": msgspec.to_builtins(settings),
        **row,
    }
    reports.insert_report(connection, values)
    return report_id
