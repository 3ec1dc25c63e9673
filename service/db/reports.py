"""Loss reports: asked for, made once by a task of the engine, never changed afterwards."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    case,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    tuple_,
    update,
)

from service.db.schedule_tables import loss_change, report, schedule, schedule_run
from service.db.tables import gpu_hour_rate, result_summary

UNFINISHED: Final = ("queued", "running")
ENDED: Final = ("succeeded", "failed")
MAX_UNSENT: Final = 1_000
# In the engine, of each schedule
MAX_AT_ONCE: Final = 2
# Of one statement: databases bound their parameters
RATES_AT_ONCE: Final = 500
# All but the document, which a list must not read
SHOWN: Final = tuple(column for column in report.c if column.name != "document")
# With the slot of the run, for those that have one
_WITH_SLOT: Final[Select[Any]] = select(
    *SHOWN, schedule_run.c.local_time, schedule_run.c.zone
).select_from(report.outerjoin(schedule_run, schedule_run.c.id == report.c.run_id))


class ReportFilter(Struct, frozen=True, kw_only=True):
    """Which reports of a team are listed; None takes all."""

    schedule_id: UUID | None = None
    run_id: UUID | None = None
    batch_id: UUID | None = None
    state: str | None = None


def insert_report(connection: Connection, row: Mapping[str, Any]) -> None:
    """Write a report that is still to be made."""
    connection.execute(insert(report).values(**row))


def get_report(connection: Connection, team_id: UUID, report_id: UUID) -> Row[Any] | None:
    """One report of the team with its slot, without its document, or None."""
    c = report.c
    query = _WITH_SLOT.where(c.id == report_id, c.team_id == team_id)
    return connection.execute(query).one_or_none()


def find_report(connection: Connection, report_id: UUID) -> Row[Any] | None:
    """One report of any team without its document, or None."""
    return connection.execute(select(*SHOWN).where(report.c.id == report_id)).one_or_none()


def read_document(connection: Connection, report_id: UUID) -> bytes | None:
    """The compressed document; None where there is none (yet)."""
    query = select(report.c.document).where(report.c.id == report_id)
    return connection.scalar(query.execution_options(binary_rows=True))


def list_reports(
    connection: Connection,
    team_id: UUID,
    chosen: ReportFilter,
    *,
    limit: int,
    before: tuple[datetime, UUID] | None = None,
) -> list[Row[Any]]:
    """Reports of the team with their slots, newest first."""
    c = report.c
    query = _WITH_SLOT.where(c.team_id == team_id)
    if chosen.schedule_id is not None:
        query = query.where(c.schedule_id == chosen.schedule_id)
    if chosen.run_id is not None:
        query = query.where(c.run_id == chosen.run_id)
    if chosen.batch_id is not None:
        query = query.where(c.batch_id == chosen.batch_id)
    if chosen.state is not None:
        query = query.where(c.state == chosen.state)
    if before is not None:
        query = query.where(tuple_(c.created_at, c.id) < before)
    return list(connection.execute(query.order_by(c.created_at.desc(), c.id.desc()).limit(limit)))


def begin(connection: Connection, report_id: UUID, now: datetime) -> bool:
    """Note that it is being made; whether it is still wanted."""
    c = report.c
    changed = connection.execute(
        update(report)
        .where(c.id == report_id, c.state.in_(UNFINISHED))
        .values(state="running", running_at=now)
    )
    return changed.rowcount == 1


def end(
    connection: Connection, report_id: UUID, *, state: str, now: datetime, **values: Any
) -> bool:
    """End the report if it has not ended; whether it was this caller that did."""
    c = report.c
    changed = connection.execute(
        update(report)
        .where(c.id == report_id, c.state.in_(UNFINISHED))
        .values(state=state, ended_at=now, version=c.version + 1, **values)
    )
    return changed.rowcount == 1


def insert_changes(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write what moved the loss of each scenario, for histories."""
    if rows:
        connection.execute(insert(loss_change), [dict(row) for row in rows])


def delete_report(connection: Connection, report_id: UUID, *, version: int) -> bool:
    """Delete the report with its changes if it is at the version; whether it was."""
    c = report.c
    # SQLite and PostgreSQL both cascade, but only what is really deleted
    deleted = connection.execute(delete(report).where(c.id == report_id, c.version == version))
    return deleted.rowcount == 1


def num_unfinished(connection: Connection, team_id: UUID) -> int:
    """How many reports of the team still wait or are being made."""
    c = report.c
    query = select(func.count()).where(c.team_id == team_id, c.state.in_(UNFINISHED))
    return connection.scalar(query) or 0


def ended_before(connection: Connection, moment: datetime) -> tuple[int, int, datetime | None]:
    """How many reports ended before then, the bytes of their documents, and when the oldest did."""
    c = report.c
    row = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(func.length(c.document)), 0),
            func.min(c.ended_at),
        ).where(c.state.in_(ENDED), c.ended_at < moment)
    ).one()
    return int(row[0]), int(row[1]), row[2]


def delete_ended_before(
    connection: Connection, moment: datetime, *, limit: int
) -> list[tuple[UUID, UUID]]:
    """Delete the oldest reports that ended before then; the teams and ids of those deleted."""
    c = report.c
    ids = list(
        connection.scalars(
            select(c.id)
            .where(c.state.in_(ENDED), c.ended_at < moment)
            .order_by(c.ended_at, c.id)
            .limit(limit)
        )
    )
    deleted = connection.execute(delete(report).where(c.id.in_(ids)).returning(c.team_id, c.id))
    return [(row.team_id, row.id) for row in deleted]


def list_unsent(connection: Connection, version: int, *, is_nightly: bool) -> list[UUID]:
    """Reports to be made that a workflow of the version may be given now, the first one first.

    Either those of runs in their time, or what can wait: reports asked for by hand and those of
    backfills. The engine takes what comes first, whosever it is: of each schedule it has few at a
    time (of what a team asks for by hand likewise), so that one does not hold up the others.
    """
    c = report.c
    is_unsent = case((c.enqueued_version == version, 0), else_=1)
    place = func.row_number().over(
        partition_by=func.coalesce(c.schedule_id, c.team_id),
        order_by=(is_unsent, c.created_at, c.id),
    )
    w = (
        _unfinished(
            (c.id, c.created_at, is_unsent.label("is_unsent"), place.label("place")),
            is_nightly=is_nightly,
        )
        .subquery()
        .c
    )
    query: Select[UUID] = (
        select(w.id)
        .where(w.is_unsent == 1, w.place <= MAX_AT_ONCE)
        .order_by(w.place, w.created_at, w.id)
        .limit(MAX_UNSENT)
    )
    return list(connection.scalars(query))


def num_waiting(connection: Connection, *, is_nightly: bool) -> int:
    """How many reports of all teams are still to be made, or are being made."""
    return connection.scalar(_unfinished((func.count(),), is_nightly=is_nightly)) or 0


def _unfinished(columns: Sequence[ColumnElement[Any]], *, is_nightly: bool) -> Select[Any]:
    can_wait = or_(report.c.run_id.is_(None), schedule_run.c.backfill_id.is_not(None))
    return (
        select(*columns)
        .select_from(report.outerjoin(schedule_run, schedule_run.c.id == report.c.run_id))
        .where(report.c.state.in_(UNFINISHED), not_(can_wait) if is_nightly else can_wait)
    )


def mark_sent(connection: Connection, ids: Sequence[UUID], version: int) -> None:
    """Note which workflow the reports to be made were given."""
    c = report.c
    connection.execute(
        update(report)
        .where(c.id.in_(ids), c.state.in_(UNFINISHED))
        .values(enqueued_version=version)
    )


def schedule_of(connection: Connection, schedule_id: UUID) -> Row[Any]:
    """The schedule of a run or report: its row stays, deleted or not."""
    return connection.execute(select(schedule).where(schedule.c.id == schedule_id)).one()


def summaries_of(connection: Connection, batch_id: UUID) -> list[Row[Any]]:
    """The headline results of a batch."""
    c = result_summary.c
    return list(
        connection.execute(select(result_summary).where(c.batch_id == batch_id).order_by(c.point))
    )


def rates_of(connection: Connection, rate_ids: Collection[UUID]) -> list[Row[Any]]:
    """The rates: what they are for, what they cost and when they are valid."""
    ordered = sorted(rate_ids)
    found: list[Row[Any]] = []
    for start in range(0, len(ordered), RATES_AT_ONCE):
        part = ordered[start : start + RATES_AT_ONCE]
        query = select(gpu_hour_rate).where(gpu_hour_rate.c.id.in_(part))
        found.extend(connection.execute(query))
    return found
