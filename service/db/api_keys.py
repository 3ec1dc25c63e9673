"""Rows of API keys."""

from typing import Any
from uuid import UUID

from sqlalchemy import insert, select

from service.db.engine import Connection, Row
from service.db.tables import api_key, team


def insert_key(connection: Connection, **columns: Any) -> UUID:
    """Store a key; its id."""
    made = connection.execute(insert(api_key).values(**columns).returning(api_key.c.id))
    found: UUID = made.scalar_one()
    return found


def find_by_public_id(connection: Connection, public_id: str) -> Row[Any] | None:
    """The key of any team with this public id, and the slug of its team."""
    return connection.execute(
        select(api_key, team.c.slug.label("team"))
        .join(team, team.c.id == api_key.c.team_id)
        .where(api_key.c.public_id == public_id)
    ).one_or_none()


def any_key(connection: Connection) -> bool:
    """Whether a key was ever made, of whatever team, usable or not."""
    return connection.execute(select(api_key.c.id).limit(1)).first() is not None
