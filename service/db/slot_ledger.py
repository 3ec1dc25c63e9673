"""Writing slots into the ledger: one row for each, whoever else writes it at the same moment."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, and_, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from service.db.schedule_tables import schedule, schedule_run

# SQLite takes 32 766 values in a statement.
ROWS_PER_STATEMENT = 500


def insert_slots(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[UUID]:
    """Write the rows whose slots are not in the ledger yet; their ids."""
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    inserted: list[UUID] = []
    for first in range(0, len(rows), ROWS_PER_STATEMENT):
        part = [dict(row) for row in rows[first : first + ROWS_PER_STATEMENT]]
        statement = (
            make(schedule_run)
            .values(part)
            .on_conflict_do_nothing(index_elements=["schedule_id", "scheduled_for"])
            .returning(schedule_run.c.id)
        )
        inserted += connection.scalars(statement).all()
    return inserted


def come_schedules(
    connection: Connection,
    now: datetime,
    limit: int,
    *,
    after: tuple[datetime, UUID] | None = None,
) -> list[Row[Any]]:
    """Schedules with a slot that has come and is not in the ledger, the oldest slot first.

    `after` is the slot and the id of the last one that was read already.
    """
    c = schedule.c
    query = select(schedule).where(_has_come(now)).order_by(c.next_at, c.id).limit(limit)
    if after is not None:
        behind = and_(c.next_at == after[0], c.id > after[1])
        query = query.where(or_(c.next_at > after[0], behind))
    return list(connection.execute(query))


def coming_schedules(connection: Connection, limit: int, *, after: UUID | None) -> list[Row[Any]]:
    """Schedules that wait for a next slot, by id, after the one that was read last."""
    c = schedule.c
    query = select(schedule).where(
        c.next_at.is_not(None), c.paused_at.is_(None), c.deleted_at.is_(None)
    )
    if after is not None:
        query = query.where(c.id > after)
    return list(connection.execute(query.order_by(c.id).limit(limit)))


def newest_slot(connection: Connection, schedule_id: UUID) -> Row[Any] | None:
    """The row of the newest slot that is in the ledger; what was asked for by hand is none."""
    c = schedule_run.c
    query = select(schedule_run).where(c.schedule_id == schedule_id, c.kind != "manual")
    return connection.execute(query.order_by(c.scheduled_for.desc()).limit(1)).one_or_none()


def find_schedule(connection: Connection, schedule_id: UUID) -> Row[Any]:
    """The schedule of a run, deleted or not: its row is never taken away."""
    return connection.execute(select(schedule).where(schedule.c.id == schedule_id)).one()


def get_schedule(connection: Connection, team_id: UUID, schedule_id: UUID) -> Row[Any] | None:
    """The team's schedule of this id, deleted or not, or None."""
    c = schedule.c
    query = select(schedule).where(c.id == schedule_id, c.team_id == team_id)
    return connection.execute(query).one_or_none()


def lock_schedule(
    connection: Connection, schedule_id: UUID, *, wait: bool = False
) -> Row[Any] | None:
    """The schedule, for this transaction alone; None while another one has it (or `wait`).

    The key is left out of the lock: runs, reports and deliveries refer to it. On SQLite the
    transaction is the only writer already.
    """
    query = select(schedule).where(schedule.c.id == schedule_id)
    query = query.with_for_update(key_share=True, skip_locked=not wait)
    return connection.execute(query).one_or_none()


def runs_of_slots(
    connection: Connection, schedule_id: UUID, slots: Sequence[datetime]
) -> dict[datetime, Row[Any]]:
    """The rows of the ledger for those of the slots that have one."""
    found: dict[datetime, Row[Any]] = {}
    c = schedule_run.c
    for first in range(0, len(slots), ROWS_PER_STATEMENT):
        part = slots[first : first + ROWS_PER_STATEMENT]
        query = select(schedule_run).where(c.schedule_id == schedule_id, c.scheduled_for.in_(part))
        found |= {row.scheduled_for: row for row in connection.execute(query)}
    return found


def _has_come(now: datetime) -> Any:
    c = schedule.c
    return (c.next_at <= now) & c.deleted_at.is_(None) & c.paused_at.is_(None)
