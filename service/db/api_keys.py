"""Rows of API keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, insert, or_, select, update

from service.db.engine import Connection, Row
from service.db.tables import api_key, team, utc_now


def insert_key(connection: Connection, **columns: Any) -> UUID:
    """Store a key; its id."""
    made = connection.execute(insert(api_key).values(**columns).returning(api_key.c.id))
    found: UUID = made.scalar_one()
    return found


def find_by_public_id(connection: Connection, public_id: str) -> Row[Any] | None:
    """The key of any team with this public id, and the slug of its team."""
    query = _with_team().where(api_key.c.public_id == public_id)
    return connection.execute(query).one_or_none()


def get_key(connection: Connection, team_id: UUID, key_id: UUID) -> Row[Any] | None:
    """The key of the team, usable or not, or None."""
    query = _with_team().where(api_key.c.team_id == team_id, api_key.c.id == key_id)
    return connection.execute(query).one_or_none()


def list_keys(
    connection: Connection, team_id: UUID, *, after: UUID | None, limit: int
) -> list[Row[Any]]:
    """Keys of the team, the oldest first (an id begins with its moment), after the id `after`."""
    query = _with_team().where(api_key.c.team_id == team_id)
    if after is not None:
        query = query.where(api_key.c.id > after)
    return list(connection.execute(query.order_by(api_key.c.id).limit(limit)).all())


def change_key(
    connection: Connection, key_id: UUID, *, version: int, values: Mapping[str, Any]
) -> bool:
    """Change the key's row; False when its version is no longer the given one."""
    columns = api_key.c
    changed = connection.execute(
        update(api_key)
        .where(columns.id == key_id, columns.version == version)
        .values(version=version + 1, updated_at=utc_now(), **values)
    )
    return changed.rowcount == 1


def revoke_key(connection: Connection, key_id: UUID, *, revoked_by: str) -> bool:
    """Revoke the key, whatever its version is; False when it is revoked already."""
    columns = api_key.c
    now = utc_now()
    changed = connection.execute(
        update(api_key)
        .where(columns.id == key_id, columns.revoked_at.is_(None))
        .values(version=columns.version + 1, updated_at=now, revoked_at=now, revoked_by=revoked_by)
    )
    return changed.rowcount == 1


def touch_key(
    connection: Connection, public_id: str, *, used_at: datetime, noted_before: datetime
) -> None:
    """Note the use of a key whose last noted use is before `noted_before`; no new version."""
    columns = api_key.c
    connection.execute(
        update(api_key)
        .where(
            columns.public_id == public_id,
            or_(columns.last_used_at.is_(None), columns.last_used_at < noted_before),
        )
        .values(last_used_at=used_at, updated_at=columns.updated_at)
    )


def list_public_ids(connection: Connection, team_id: UUID) -> list[str]:
    """The public ids of all keys of the team, usable or not, the oldest first."""
    columns = api_key.c
    query = select(columns.public_id).where(columns.team_id == team_id)
    return list(connection.scalars(query.order_by(columns.created_at, columns.id)))


def any_key(connection: Connection) -> bool:
    """Whether a key was ever made, of whatever team, usable or not."""
    return connection.execute(select(api_key.c.id).limit(1)).first() is not None


def _with_team() -> Select[Any]:
    return select(api_key, team.c.slug.label("team")).join(team, team.c.id == api_key.c.team_id)
