"""Runs as they are shown, with how far their batches are."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import msgspec

from service.db import batches
from service.db.engine import Connection, Row
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut
from service.jobs.batch_views import shown_batches
from service.jobs.reason_sentences import coded
from service.jobs.run_documents import EarlierAttempt, RunBatch, RunNotice, RunOut
from service.jobs.waiting_reasons import waiting_reasons
from service.reports.loss_report import BudgetOutcome, BudgetStatus
from service.reports.withheld_report import withheld_budget


def shown_runs(connection: Connection, actor: Actor, rows: Sequence[Row[Any]]) -> list[RunOut]:
    """The documents of the runs, in the order given; each row has its `schedule_slug`."""
    ids = [row.batch_id for row in rows if row.batch_id is not None]
    team_id = actor.team_id
    found = batches.list_batches(connection, team_id, limit=len(ids), ids=ids) if ids else []
    progress = {batch.id: batch for batch in shown_batches(connection, found)}
    reasons = waiting_reasons(connection, rows)
    return [
        _shown(row, actor, progress.get(row.batch_id), row.reason or reasons.get(row.id))
        for row in rows
    ]


def _shown(row: Row[Any], actor: Actor, batch: BatchOut | None, reason: str | None) -> RunOut:
    return RunOut(
        id=row.id,
        schedule_id=row.schedule_id,
        schedule=row.schedule_slug,
        kind=row.kind,
        scheduled_for=row.scheduled_for,
        local_time=row.local_time,
        zone=row.zone,
        state=row.state,
        reason=reason,
        reason_coded=coded(reason),
        attempt=row.attempt,
        backfill_id=row.backfill_id,
        start_on=row.start_on,
        batch_id=row.batch_id,
        batch_url=_address("scenario-batches", row.batch_id),
        batch=None if batch is None else _progress(batch),
        report_id=row.report_id,
        report_url=_address("reports", row.report_id),
        baseline_run_id=row.baseline_run_id,
        baseline_missing=row.baseline_missing,
        budget_status=_budget_status(row, actor),
        warnings=[run_notice(**one) for one in row.warnings],
        earlier_attempts=msgspec.convert(row.earlier_batches, list[EarlierAttempt]),
        schedule_version=row.schedule_version,
        tzdata_version=row.tzdata_version,
        not_before=row.not_before,
        created_at=row.created_at,
        created_by=row.created_by,
        started_at=row.started_at,
        ended_at=row.ended_at,
        version=row.version,
    )


def run_notice(pointer: str, code: str, detail: str) -> RunNotice:
    """A notice with what stands in its sentence."""
    found = coded(detail)
    values = {} if found is None else found.values
    return RunNotice(pointer=pointer, code=code, detail=detail, values=values)


def _progress(batch: BatchOut) -> RunBatch:
    return RunBatch(
        state=batch.state,
        counts=batch.counts,
        points_done=batch.points_done,
        points_failed=batch.points_failed,
        points_total=batch.points_total,
    )


def _address(what: str, found: UUID | None) -> str | None:
    return None if found is None else f"/v1/{what}/{found}"


def _budget_status(row: Row[Any], actor: Actor) -> BudgetStatus | None:
    if row.budget_status is None:
        return None
    if actor.sees_costs:
        return cast("BudgetStatus", row.budget_status)
    # As in the report itself: GPU-hours that alone are over their budget tell of no money.
    return withheld_budget(msgspec.convert(row.budget, BudgetOutcome)).status
