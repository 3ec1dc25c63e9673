"""The end of a run: its state in the ledger, and in the same transaction what is to be told.

Whoever ends a run calls one of these: a run that has ended without its deliveries being planned
would never be told, and one that is told twice would be a nuisance.
"""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from service.db import reports, schedule_runs
from service.db.engine import Connection, Row
from service.jobs import delivery_plans
from service.jobs.reason_sentences import say
from service.jobs.run_documents import UNFINISHED_RUNS, RunSettings
from service.reports.loss_report import BudgetOutcome, LossReport

RunEnd = Literal["succeeded", "partially_failed", "failed", "canceled", "skipped", "replaced"]
# Ends of a run by the end of its batch
BY_BATCH_STATE: dict[str, RunEnd] = {
    "succeeded": "succeeded",
    "partially_failed": "partially_failed",
    "failed": "failed",
    "canceled": "canceled",
    "expired": "failed",
}


def end_with_report(
    connection: Connection, run_id: UUID, report: LossReport, *, now: datetime
) -> bool:
    """End a run whose report is made, as its batch has ended; whether it was open.

    The caller writes the report in the same transaction.
    """
    state = BY_BATCH_STATE[report.batch.state]
    reason = say("deadline_passed") if report.batch.state == "expired" else None
    return _end(connection, run_id, report, state, reason, now)


def end_without_report(
    connection: Connection, run: Row[Any], state: RunEnd, reason: str, now: datetime
) -> bool:
    """End a run that gets no report, with the reason; whether it was open."""
    return _end(connection, run.id, None, state, reason, now)


def _end(
    connection: Connection,
    run_id: UUID,
    report: LossReport | None,
    state: RunEnd,
    reason: str | None,
    now: datetime,
) -> bool:
    ended = schedule_runs.end_run(
        connection,
        run_id,
        expected=UNFINISHED_RUNS,
        state=state,
        reason=reason,
        now=now,
        **_budget(report.budget if report is not None else None),
    )
    run = schedule_runs.find_run(connection, run_id)
    if not ended or run is None:
        return False
    schedule = reports.schedule_of(connection, run.schedule_id)
    delivery_plans.plan(
        connection,
        run=run,
        schedule=schedule,
        settings=_settings(run, schedule),
        report=report,
        state=state,
        reason=reason,
        now=now,
    )
    return True


def _budget(outcome: BudgetOutcome | None) -> dict[str, Any]:
    """What the ledger keeps of the budget: nothing where there is none."""
    if outcome is None:
        return {}
    return {"budget_status": outcome.status, "budget": msgspec.to_builtins(outcome)}


def _settings(run: Row[Any], schedule: Row[Any]) -> RunSettings:
    """As they were when the run began; a run that never began has those of its schedule."""
    kept = run.settings
    if kept is None:
        kept = {name: schedule.definition.get(name) for name in ("report", "deliveries", "budget")}
        kept = {name: value for name, value in kept.items() if value is not None}
    return msgspec.convert(kept, RunSettings)
