"""Use cases of reports: have one made of any two ended batches, read, list and delete them."""

from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from service.db import pricings, reports
from service.db.engine import Connection, Row
from service.db.reports import ReportFilter
from service.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from service.jobs import audit, report_queue, schedules
from service.jobs.actors import Actor
from service.jobs.batches import require_finished
from service.jobs.budget_checks import budget_faults
from service.jobs.cost_access import require_costs
from service.jobs.page_tokens import make_token, read_token
from service.jobs.prices import FIRST_PRICING
from service.jobs.report_documents import (
    MakingSettings,
    ReportDetail,
    ReportIn,
    ReportOut,
    ReportPage,
    ReportState,
)
from service.jobs.report_store import read_stored
from service.jobs.schedule_views import holds_money
from service.jobs.schedules import id_in
from service.reports.loss_report import LossReport

# Reports of a team that wait or are being made: of a backfill there may be as many as slots.
MOST_UNFINISHED: Final = 2_000


def create(connection: Connection, actor: Actor, document: ReportIn) -> ReportOut:
    """Have a report made of ended batches; the same batches again make another report.

    Raises `NotFoundError` (a batch or pricing that is not there), `ConflictError` (one that has
    not ended), `ForbiddenError` (another pricing than the first, or a budget of money, for an
    actor that may not see any), `InvalidError` and `UnavailableError` (too many reports wait).
    """
    if holds_money(document.budget):
        require_costs(actor, "a budget of money")
    batch = require_finished(connection, actor, document.batch_id)
    _require_pricing(connection, actor, document.batch_id, document.pricing)
    _check_budget(connection, actor, document, batch)
    if document.baseline_batch_id is not None:
        require_finished(connection, actor, document.baseline_batch_id)
        _require_pricing(connection, actor, document.baseline_batch_id, document.baseline_pricing)
    if reports.num_unfinished(connection, actor.team_id) >= MOST_UNFINISHED:
        raise UnavailableError(f"{MOST_UNFINISHED} reports of the team wait already: try later")
    report_id = report_queue.insert(
        connection,
        {
            "team_id": actor.team_id,
            "created_at": datetime.now(UTC),
            "created_by": actor.name,
            "name": document.name or batch.name,
            "batch_id": document.batch_id,
            "pricing": document.pricing,
            "baseline_batch_id": document.baseline_batch_id,
            "baseline_pricing": document.baseline_pricing,
        },
        MakingSettings(report=document.report, budget=document.budget),
    )
    made = _out(_require(connection, actor, report_id), actor)
    audit.record(
        connection, actor, action="create_report", subject=f"report/{report_id}", after=made
    )
    return made


def get(connection: Connection, actor: Actor, report_id: UUID) -> ReportDetail:
    """A report with its headline; raises `NotFoundError`."""
    row = _require(connection, actor, report_id)
    document = None
    if row.state == "succeeded":
        document = read_stored(connection, report_id, with_costs=actor.sees_costs)
    return ReportDetail(
        **msgspec.structs.asdict(_out(row, actor)),
        headline=None if document is None else document.headline,
        budget=None if document is None else document.budget,
        warnings=None if document is None else len(document.warnings),
    )


class ReportChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which reports are listed; a schedule by id or slug."""

    schedule: str | None = None
    run: UUID | None = None
    batch: UUID | None = None
    state: ReportState | None = None


def list_page(
    connection: Connection,
    actor: Actor,
    chosen: ReportChoice,
    *,
    page_size: int,
    page_token: str | None,
) -> ReportPage:
    """A page of reports, newest first; raises `NotFoundError` for an unknown schedule."""
    wanted = ReportFilter(
        schedule_id=_schedule_id(connection, actor, chosen.schedule),
        run_id=chosen.run,
        batch_id=chosen.batch,
        state=chosen.state,
    )
    query = ["reports", msgspec.to_builtins(chosen)]
    before = read_token(page_token, query, tuple[datetime, UUID])
    rows = reports.list_reports(
        connection, actor.team_id, wanted, limit=page_size + 1, before=before
    )
    shown = rows[:page_size]
    more = len(rows) > page_size
    return ReportPage(
        items=[_out(row, actor) for row in shown],
        next_page_token=make_token(query, (shown[-1].created_at, shown[-1].id)) if more else None,
    )


def require_ended(connection: Connection, actor: Actor, report_id: UUID) -> ReportOut:
    """A report that can be read; raises `NotFoundError`, and `ConflictError` for others."""
    row = _require(connection, actor, report_id)
    if row.state == "failed":
        raise ConflictError(
            f"report {report_id} has failed: {row.failure}", problem="report-failed"
        )
    if row.state != "succeeded":
        raise ConflictError(
            f"report {report_id} is {row.state}; it can be read when it has succeeded",
            problem="report-not-finished",
        )
    return _out(row, actor)


def read_document(connection: Connection, actor: Actor, report_id: UUID) -> LossReport:
    """The document, its money withheld unless the actor sees any; raises as `require_ended`."""
    require_ended(connection, actor, report_id)
    return read_stored(connection, report_id, with_costs=actor.sees_costs)


def delete(connection: Connection, actor: Actor, report_id: UUID, *, expected_version: int) -> None:
    """Delete a report; batches and the run's entry in the ledger stay.

    One that its run waits for cannot be deleted (`ConflictError`). Raises `NotFoundError` and
    `PreconditionFailedError`.
    """
    row = _require(connection, actor, report_id)
    if row.run_id is not None and row.state in reports.UNFINISHED:
        raise ConflictError(
            f"report {report_id} is {row.state}, and run {row.run_id} waits for it",
            problem="report-not-finished",
        )
    before = _out(row, actor)
    if not reports.delete_report(connection, report_id, version=expected_version):
        # It may have been changed or deleted since it was read above.
        current = _require(connection, actor, report_id)
        raise PreconditionFailedError(
            f"report {report_id} is at version {current.version}, not {expected_version}"
        )
    audit.record(
        connection, actor, action="delete_report", subject=f"report/{report_id}", before=before
    )


def _schedule_id(connection: Connection, actor: Actor, key: str | None) -> UUID | None:
    """By id those of a deleted schedule can be listed too."""
    if key is None:
        return None
    wanted = id_in(key)
    if wanted is not None:
        return wanted
    found: UUID = schedules.require(connection, actor, key).id
    return found


def _require(connection: Connection, actor: Actor, report_id: UUID) -> Row[Any]:
    row = reports.get_report(connection, actor.team_id, report_id)
    if row is None:
        raise NotFoundError(f"there is no report {report_id}")
    return row


def _out(row: Row[Any], actor: Actor) -> ReportOut:
    settings = msgspec.convert(row.settings, MakingSettings)
    is_there, shown = row.state == "succeeded", actor.sees_costs
    return ReportOut(
        id=row.id,
        state=cast("ReportState", row.state),
        name=row.name,
        batch_id=row.batch_id,
        baseline_batch_id=row.baseline_batch_id,
        pricing=row.pricing if shown else None,
        baseline_pricing=row.baseline_pricing if shown else None,
        schedule_id=row.schedule_id,
        run_id=row.run_id,
        local_time=row.local_time,
        zone=row.zone,
        language=settings.report.language,
        failure=row.failure,
        created_at=row.created_at,
        created_by=row.created_by,
        running_at=row.running_at,
        ended_at=row.ended_at,
        sha256=row.sha256 if shown else None,
        content_url=f"/v1/reports/{row.id}/content" if is_there else None,
        version=row.version,
    )


def _require_pricing(connection: Connection, actor: Actor, batch_id: UUID, number: int) -> None:
    """Raise `ForbiddenError` or `NotFoundError` for a pricing that may not be asked for."""
    if number == FIRST_PRICING:
        return
    require_costs(actor, f"pricing {number}")
    if number not in {row.sequence for row in pricings.list_pricings(connection, [batch_id])}:
        raise NotFoundError(f"batch {batch_id} has no pricing {number}")


def _check_budget(
    connection: Connection, actor: Actor, document: ReportIn, batch: Row[Any]
) -> None:
    """Raise `InvalidError` for a budget that no schedule could have either."""
    if document.budget is None:
        return
    of_batch = pricings.list_pricings(connection, [document.batch_id])
    priced = next((row for row in of_batch if row.sequence == document.pricing), batch)
    faults = list(budget_faults(actor, document.budget, priced.currency))
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)
