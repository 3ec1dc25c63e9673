"""Counts what is past its time, of one team or of all: nothing here deletes."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Executable, Row, Select, func, literal, select

from service.db.access_tables import audit_chain, audit_event
from service.db.export_files import ENDED as EXPORT_ENDED
from service.db.reports import ENDED as REPORT_ENDED
from service.db.run_queue import UNFINISHED_RUNS
from service.db.schedule_tables import delivery, report, schedule, schedule_run
from service.db.tables import export_file, result_block, scenario_batch


class Measure(Struct, frozen=True, kw_only=True):
    """How many rows there are, the bytes of what they hold, and the oldest of their moments."""

    count: int
    bytes: int
    oldest_at: datetime | None


class OldBatches(Struct, frozen=True, kw_only=True):
    """Batches past their time; how many of them are of schedules, and how many are kept anyway."""

    measure: Measure
    of_schedules: int
    needed: int


def old_batches(
    connection: Connection,
    before: datetime,
    states: Sequence[str],
    team_id: UUID | None,
    needed: Collection[UUID],
) -> OldBatches:
    """Batches that ended before then, without those that are needed."""
    c = scenario_batch.c
    past = [c.deleted_at.is_(None), c.ended_at < before, c.state.in_(states)]
    past += _of_team(c.team_id, team_id)
    old = [*past, c.id.not_in(needed)]
    query = select(func.count(), func.min(c.ended_at)).where(*old)
    count, oldest_at = connection.execute(query).one()
    blocks = (
        select(func.coalesce(func.sum(func.length(result_block.c.data)), 0))
        .select_from(result_block)
        .join(scenario_batch, c.id == result_block.c.batch_id)
        .where(*old)
    )
    scheduled = (
        select(func.count(func.distinct(c.id)))
        .select_from(scenario_batch)
        .join(schedule_run, schedule_run.c.batch_id == c.id)
        .where(*old)
    )
    kept = select(func.count()).where(*past, c.id.in_(needed))
    num_bytes = int(connection.scalar(blocks) or 0) if count else 0
    return OldBatches(
        measure=Measure(count=count, bytes=num_bytes, oldest_at=oldest_at),
        of_schedules=int(connection.scalar(scheduled) or 0) if count else 0,
        needed=int(connection.scalar(kept) or 0),
    )


def list_schedules(connection: Connection) -> list[Row[Any]]:
    """The schedules of all teams that are not deleted: `id`, `zone`, `definition`."""
    c = schedule.c
    query = select(c.id, c.zone, c.definition).where(c.deleted_at.is_(None))
    return list(connection.execute(query))


def batches_in_use(connection: Connection) -> set[UUID]:
    """Batches that a run or a report reads which has not ended: its own, and its baseline."""
    run, past = schedule_run.c, schedule_run.alias("past")
    making = report.c.state.not_in(REPORT_ENDED)
    baselines = (
        select(past.c.batch_id)
        .join(schedule_run, run.baseline_run_id == past.c.id)
        .where(run.state.in_(UNFINISHED_RUNS))
    )
    found: set[UUID | None] = set()
    for query in (
        select(report.c.batch_id).where(making),
        select(report.c.baseline_batch_id).where(making),
        select(run.batch_id).where(run.state.in_(UNFINISHED_RUNS)),
        baselines,
    ):
        found.update(connection.scalars(query))
    return {batch_id for batch_id in found if batch_id is not None}


def expired_exports(connection: Connection, now: datetime, team_id: UUID | None) -> Measure:
    """Exported files whose time has come."""
    c = export_file.c
    size = func.coalesce(func.sum(c.num_bytes), 0)
    query = select(func.count(), size, func.min(c.ended_at)).where(
        c.state.in_(EXPORT_ENDED), c.expires_at <= now, *_of_team(c.team_id, team_id)
    )
    return _measured(connection, query)


def list_expired_exports(connection: Connection, now: datetime) -> list[UUID]:
    """The exported files of all teams whose time has come, the oldest first."""
    c = export_file.c
    query = select(c.id).where(c.state.in_(EXPORT_ENDED), c.expires_at <= now)
    return list(connection.scalars(query.order_by(c.expires_at, c.id)))


def old_reports(connection: Connection, before: datetime, team_id: UUID | None) -> Measure:
    """Reports that ended before then."""
    c = report.c
    size = func.coalesce(func.sum(func.length(c.document)), 0)
    query = select(func.count(), size, func.min(c.ended_at)).where(
        c.state.in_(REPORT_ENDED), c.ended_at < before, *_of_team(c.team_id, team_id)
    )
    return _measured(connection, query)


def old_deliveries(connection: Connection, before: datetime, team_id: UUID | None) -> Measure:
    """Ended deliveries that were made before then and have no files left to be removed."""
    c = delivery.c
    size = func.coalesce(func.sum(func.length(c.payload)), 0)
    query = select(func.count(), size, func.min(c.created_at)).where(
        c.state != "pending",
        c.created_at < before,
        c.files_expire_at.is_(None),
        *_of_team(c.team_id, team_id),
    )
    return _measured(connection, query)


def expired_files(connection: Connection, now: datetime, team_id: UUID | None) -> list[Row[Any]]:
    """Directory deliveries whose files are to be removed: `outcome` and `ended_at`."""
    c = delivery.c
    query: Select[Any] = select(c.outcome, c.ended_at)
    return list(
        connection.execute(query.where(c.files_expire_at <= now, *_of_team(c.team_id, team_id)))
    )


def old_events(connection: Connection, before: datetime, team_id: UUID | None) -> Measure:
    """Sealed events of the audit trail that were recorded before then."""
    c = audit_event.c
    query = (
        select(func.count(), literal(0), func.min(c.created_at))
        .select_from(audit_event)
        .join(audit_chain, audit_chain.c.team_id == c.team_id)
        .where(
            c.created_at < before,
            c.sequence <= audit_chain.c.sealed_sequence,
            *_of_team(c.team_id, team_id),
        )
    )
    return _measured(connection, query)


def _measured(connection: Connection, query: Executable) -> Measure:
    count, num_bytes, oldest_at = connection.execute(query).one()
    return Measure(count=count, bytes=int(num_bytes), oldest_at=oldest_at)


def _of_team(column: ColumnElement[UUID], team_id: UUID | None) -> list[ColumnElement[bool]]:
    return [] if team_id is None else [column == team_id]
