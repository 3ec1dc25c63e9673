"""Schedules: what runs when, for whom; the ledger of their slots is in other modules."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import uuid_utils.compat
from msgspec import Struct
from sqlalchemy import Connection, Row, Select, and_, func, insert, select, update

from service.db.schedule_tables import schedule, schedule_run
from service.db.tables import team, utc_now


class ScheduleFilter(Struct, frozen=True, kw_only=True):
    """Which schedules a list holds; what is not given does not filter."""

    paused: bool | None = None
    zone: str | None = None
    slug_prefix: str | None = None


def hold_team(connection: Connection, team_id: UUID) -> None:
    """Until the transaction ends, nobody else makes a schedule for the team."""
    # Weaker than what foreign keys take, so that all else of the team goes on.
    query = select(team.c.id).where(team.c.id == team_id)
    connection.execute(query.with_for_update(key_share=True))


def count_schedules(connection: Connection, team_id: UUID) -> int:
    """How many schedules the team has, paused ones too."""
    query = select(func.count()).select_from(schedule)
    return connection.scalar(query.where(*_there(team_id))) or 0


def insert_schedule(connection: Connection, team_id: UUID, values: Mapping[str, Any]) -> UUID:
    """Write a schedule; the caller holds the team and knows that the slug is free."""
    schedule_id = uuid_utils.compat.uuid7()
    connection.execute(
        insert(schedule).values(
            id=schedule_id, team_id=team_id, unique_slug=values["slug"], **values
        )
    )
    return schedule_id


def get_schedule(
    connection: Connection, team_id: UUID, key: UUID | str, *, lock: bool = False
) -> Row[Any] | None:
    """The team's schedule of this id or slug, or None; a deleted one is none.

    `lock`: nobody else changes it or moves it on until the transaction ends.
    """
    column = schedule.c.id if isinstance(key, UUID) else schedule.c.slug
    query = select(schedule).where(*_there(team_id), column == key)
    if lock:
        query = query.with_for_update(key_share=True)
    return connection.execute(query).one_or_none()


def get_deleted(connection: Connection, team_id: UUID, schedule_id: UUID) -> Row[Any] | None:
    """The team's schedule of this id that was deleted: its runs are still there."""
    c = schedule.c
    query = select(schedule).where(
        c.id == schedule_id, c.team_id == team_id, c.deleted_at.is_not(None)
    )
    return connection.execute(query).one_or_none()


def list_schedules(
    connection: Connection,
    team_id: UUID,
    wanted: ScheduleFilter,
    *,
    after: str | None,
    limit: int,
) -> list[Row[Any]]:
    """Schedules by slug, after the keyset position `after`."""
    c = schedule.c
    query = select(schedule).where(*_there(team_id)).order_by(c.slug).limit(limit)
    if after is not None:
        query = query.where(c.slug > after)
    if wanted.paused is not None:
        query = query.where(c.paused_at.is_not(None) if wanted.paused else c.paused_at.is_(None))
    if wanted.zone is not None:
        query = query.where(c.zone == wanted.zone)
    if wanted.slug_prefix is not None:
        # Not LIKE, which does not tell capitals apart on SQLite.
        prefix = wanted.slug_prefix
        query = query.where(func.substr(c.slug, 1, len(prefix)) == prefix)
    return list(connection.execute(query))


def change_schedule(
    connection: Connection, schedule_id: UUID, *, version: int, values: Mapping[str, Any]
) -> bool:
    """Change the schedule; False when its version is no longer the given one, or it is gone."""
    c = schedule.c
    changed = connection.execute(
        update(schedule)
        .where(c.id == schedule_id, c.version == version, c.deleted_at.is_(None))
        .values(version=version + 1, updated_at=utc_now(), **values)
    )
    return changed.rowcount == 1


def lock_due(connection: Connection, now: datetime, limit: int) -> list[Row[Any]]:
    """Schedules whose next slot has come, longest due first; nobody else gets them meanwhile.

    Those that another transaction holds are left out: it moves them on.
    """
    c = schedule.c
    query = (
        select(schedule)
        .where(c.next_at <= now, c.paused_at.is_(None), c.deleted_at.is_(None))
        .order_by(c.next_at, c.id)
        .limit(limit)
        .with_for_update(skip_locked=True, key_share=True)
    )
    return list(connection.execute(query))


def set_next(connection: Connection, schedule_id: UUID, next_at: datetime | None) -> None:
    """Move the schedule on to its next slot; that is no change of the schedule itself."""
    c = schedule.c
    connection.execute(
        update(schedule).where(c.id == schedule_id).values(next_at=next_at, updated_at=c.updated_at)
    )


def newest_runs(connection: Connection, schedule_ids: Sequence[UUID]) -> dict[UUID, Row[Any]]:
    """The run of the newest slot of each schedule, by its id; none where none has come."""
    c = schedule_run.c
    newest = (
        select(c.schedule_id, func.max(c.scheduled_for).label("scheduled_for"))
        .where(c.schedule_id.in_(schedule_ids))
        .group_by(c.schedule_id)
        .subquery()
    )
    query: Select[Any] = select(c.id, c.schedule_id, c.state, c.scheduled_for, c.ended_at)
    query = query.join(
        newest,
        and_(c.schedule_id == newest.c.schedule_id, c.scheduled_for == newest.c.scheduled_for),
    )
    return {row.schedule_id: row for row in connection.execute(query)}


def has_run(connection: Connection, schedule_id: UUID, run_id: UUID) -> bool:
    """Whether the run is one of the schedule's."""
    c = schedule_run.c
    query = select(c.id).where(c.id == run_id, c.schedule_id == schedule_id)
    return connection.scalar(query) is not None


def cancel_due_runs(
    connection: Connection, schedule_id: UUID, *, reason: str, now: datetime
) -> None:
    """End the slots that have come and were not begun."""
    c = schedule_run.c
    connection.execute(
        update(schedule_run)
        .where(c.schedule_id == schedule_id, c.state == "due")
        .values(state="canceled", reason=reason, ended_at=now, version=c.version + 1)
    )


def _there(team_id: UUID) -> tuple[Any, ...]:
    return schedule.c.team_id == team_id, schedule.c.deleted_at.is_(None)
