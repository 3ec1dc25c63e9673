"""Dated GPU-hour rates; a corrected row stays and names the row that replaced it."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from service.db.tables import gpu_hour_rate, gpu_hour_rate_key, team, utc_now

Position = tuple[str, str, str, date, UUID]


class RateKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What a price is for; at most one current rate of a key is valid on a day."""

    gpu_type: str
    currency: str
    cost_center: str | None

    def text(self) -> str:
        """The key as one string: labels hold no control character, so it is unambiguous."""
        return "\x1f".join((self.gpu_type, self.currency, self.cost_center or ""))


class RateFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rates a list holds; what is not given does not filter."""

    gpu_type: str | None = None
    currency: str | None = None
    cost_center: str | None = None
    on: date | None = None
    approved: bool | None = None
    include_superseded: bool = False


def lock_keys(connection: Connection, team_id: UUID, keys: Sequence[RateKey]) -> None:
    """Let no other transaction write rates of these keys before this one ends.

    Keys are taken in one order, so that two imports cannot wait for each other. On SQLite a
    write transaction is alone from its start; the rows are then only a record.
    """
    on_postgresql = connection.dialect.name == "postgresql"
    dialect_insert = postgresql.insert if on_postgresql else sqlite.insert
    columns = gpu_hour_rate_key.c
    for text in sorted({key.text() for key in keys}):
        connection.execute(
            dialect_insert(gpu_hour_rate_key)
            .values(team_id=team_id, key=text)
            .on_conflict_do_nothing()
        )
        connection.execute(
            select(columns.key)
            .where(columns.team_id == team_id, columns.key == text)
            .with_for_update()
        )


def insert_rates(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rates; the caller holds the locks of their keys and has found no overlap."""
    connection.execute(insert(gpu_hour_rate), [dict(row) for row in rows])


def supersede(
    connection: Connection, rate_id: UUID, *, version: int, by: UUID, moment: datetime
) -> bool:
    """Mark a current rate as replaced; False when its version is no longer the given one."""
    columns = gpu_hour_rate.c
    changed = connection.execute(
        update(gpu_hour_rate)
        .where(columns.id == rate_id, columns.version == version, columns.superseded_at.is_(None))
        .values(superseded_by=by, superseded_at=moment, version=version + 1, updated_at=utc_now())
    )
    return changed.rowcount == 1


def approve(connection: Connection, rate_id: UUID, *, version: int, by: str) -> bool:
    """Mark a current rate as approved; False when its version is no longer the given one."""
    columns = gpu_hour_rate.c
    now = utc_now()
    changed = connection.execute(
        update(gpu_hour_rate)
        .where(columns.id == rate_id, columns.version == version, columns.superseded_at.is_(None))
        .values(approved_by=by, approved_at=now, version=version + 1, updated_at=now)
    )
    return changed.rowcount == 1


def approval_required(connection: Connection, team_id: UUID) -> bool:
    """Whether rates of the team price nothing before they are approved."""
    query = select(team.c.rate_approval_required).where(team.c.id == team_id)
    return bool(connection.scalar(query))


def get_rate(connection: Connection, team_id: UUID, rate_id: UUID) -> Row[Any] | None:
    """One rate of the team, current or superseded, or None."""
    columns = gpu_hour_rate.c
    query = select(gpu_hour_rate).where(columns.id == rate_id, columns.team_id == team_id)
    return connection.execute(query).one_or_none()


def list_of_key(
    connection: Connection, team_id: UUID, key: RateKey, *, include_superseded: bool = False
) -> list[Row[Any]]:
    """All rates of exactly this key, by the day they start."""
    columns = gpu_hour_rate.c
    query = select(gpu_hour_rate).where(
        columns.team_id == team_id,
        columns.gpu_type == key.gpu_type,
        columns.currency == key.currency,
        _is(columns.cost_center, key.cost_center),
    )
    if not include_superseded:
        query = query.where(columns.superseded_at.is_(None))
    return list(connection.execute(query.order_by(columns.valid_from, columns.recorded_at)))


def list_states(connection: Connection, team_id: UUID) -> list[Row[Any]]:
    """Of all rates of the team, of whatever key, when each was recorded, corrected, approved."""
    c = gpu_hour_rate.c
    columns = (c.id, c.recorded_at, c.superseded_by, c.superseded_at, c.approved_at)
    return list(connection.execute(select(*columns).where(c.team_id == team_id)))


def list_known(
    connection: Connection, team_id: UUID, key: RateKey, *, as_of: datetime | None
) -> list[Row[Any]]:
    """Rates that were current at the recorded moment `as_of` (now when None), by first day.

    Those of the key's cost centre come first, then those without a cost centre.
    """
    columns = gpu_hour_rate.c
    known: ColumnElement[bool] = columns.superseded_at.is_(None)
    if as_of is not None:
        known = and_(columns.recorded_at <= as_of, or_(known, columns.superseded_at > as_of))
    query = select(gpu_hour_rate).where(
        columns.team_id == team_id,
        columns.gpu_type == key.gpu_type,
        columns.currency == key.currency,
        or_(columns.cost_center.is_(None), columns.cost_center == key.cost_center),
        known,
    )
    rows = connection.execute(query.order_by(columns.valid_from, columns.recorded_at))
    return sorted(rows, key=lambda row: row.cost_center is None)


def list_rates(
    connection: Connection,
    team_id: UUID,
    wanted: RateFilter,
    *,
    after: Position | None,
    limit: int,
) -> list[Row[Any]]:
    """Rates by key, first day and id, after the keyset position `after`."""
    columns = gpu_hour_rate.c
    order = (
        columns.gpu_type,
        columns.currency,
        func.coalesce(columns.cost_center, ""),
        columns.valid_from,
        columns.id,
    )
    query = select(gpu_hour_rate).where(columns.team_id == team_id)
    if after is not None:
        query = query.where(tuple_(*order) > tuple_(*after, types=[part.type for part in order]))
    if wanted.gpu_type is not None:
        query = query.where(columns.gpu_type == wanted.gpu_type)
    if wanted.currency is not None:
        query = query.where(columns.currency == wanted.currency)
    if wanted.cost_center is not None:
        query = query.where(columns.cost_center == wanted.cost_center)
    if wanted.on is not None:
        query = query.where(
            columns.valid_from <= wanted.on,
            or_(columns.valid_until.is_(None), columns.valid_until > wanted.on),
        )
    if wanted.approved is not None:
        is_approved = columns.approved_at.is_not(None)
        query = query.where(is_approved if wanted.approved else ~is_approved)
    if not wanted.include_superseded:
        query = query.where(columns.superseded_at.is_(None))
    return list(connection.execute(query.order_by(*order).limit(limit)))


def _is(column: ColumnElement[Any], value: str | None) -> ColumnElement[bool]:
    return column.is_(None) if value is None else column == value
