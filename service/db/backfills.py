"""Backfills: slots of a range of days that are run, or run again, by hand."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, and_, func, insert, or_, select, update

from service.db.schedule_tables import schedule_backfill, schedule_run


def insert_backfill(connection: Connection, row: Mapping[str, Any]) -> None:
    """Write a backfill; its runs refer to it."""
    connection.execute(insert(schedule_backfill).values(**row))


def get_backfill(connection: Connection, schedule_id: UUID, backfill_id: UUID) -> Row[Any] | None:
    """One backfill of the schedule, or None."""
    c = schedule_backfill.c
    return connection.execute(
        select(schedule_backfill).where(c.id == backfill_id, c.schedule_id == schedule_id)
    ).one_or_none()


def list_backfills(
    connection: Connection,
    schedule_id: UUID,
    *,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Row[Any]]:
    """Backfills of the schedule, newest first, after the keyset position `before`."""
    c = schedule_backfill.c
    query = select(schedule_backfill).where(c.schedule_id == schedule_id)
    if before is not None:
        query = query.where(
            or_(c.created_at < before[0], and_(c.created_at == before[0], c.id < before[1]))
        )
    return list(connection.execute(query.order_by(c.created_at.desc(), c.id.desc()).limit(limit)))


def find_backfills(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Row[Any]]:
    """The backfills, by id."""
    query = select(schedule_backfill).where(schedule_backfill.c.id.in_(ids))
    return {row.id: row for row in connection.execute(query)}


def num_unfinished(connection: Connection, schedule_id: UUID) -> int:
    """How many backfills of the schedule have runs that have not ended."""
    c = schedule_run.c
    query = select(func.count(c.backfill_id.distinct())).where(
        c.schedule_id == schedule_id, c.state.in_(("due", "running", "reporting"))
    )
    return connection.scalar(query) or 0


def run_states(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """For each backfill: how many of its runs are in which state."""
    c = schedule_run.c
    found: dict[UUID, dict[str, int]] = {backfill_id: {} for backfill_id in ids}
    rows = connection.execute(
        select(c.backfill_id, c.state, func.count().label("num_runs"))
        .where(c.backfill_id.in_(ids))
        .group_by(c.backfill_id, c.state)
    )
    for row in rows:
        found[row.backfill_id][row.state] = row.num_runs
    return found


def cancel_backfill(connection: Connection, backfill_id: UUID, now: datetime) -> bool:
    """Note that no more of it is to begin; False when that was noted already."""
    c = schedule_backfill.c
    changed = connection.execute(
        update(schedule_backfill)
        .where(c.id == backfill_id, c.canceled_at.is_(None))
        .values(canceled_at=now, updated_at=now, version=c.version + 1)
    )
    return changed.rowcount == 1
