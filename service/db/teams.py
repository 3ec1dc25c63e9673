"""Rows of teams, and nothing of what belongs to them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import uuid_utils.compat
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from service.db.engine import Connection, Row
from service.db.tables import team


def insert_team(connection: Connection, *, slug: str, name: str) -> UUID | None:
    """Write a team; None when there is one with this slug."""
    team_id: UUID = uuid_utils.compat.uuid7()
    try:
        with connection.begin_nested():
            connection.execute(insert(team).values(id=team_id, slug=slug, name=name))
    except IntegrityError:
        if find_team(connection, slug) is None:
            raise
        return None
    return team_id


def find_team(connection: Connection, slug: str) -> Row[Any] | None:
    """The team with this slug, or None."""
    return connection.execute(select(team).where(team.c.slug == slug)).one_or_none()


def slug_of(connection: Connection, team_id: UUID) -> str:
    """The slug of a team that there is."""
    found: str = connection.execute(select(team.c.slug).where(team.c.id == team_id)).scalar_one()
    return found


def list_teams(connection: Connection) -> list[Row[Any]]:
    """All teams by slug."""
    return list(connection.execute(select(team).order_by(team.c.slug)).all())


def change_team(connection: Connection, team_id: UUID, values: Mapping[str, Any]) -> None:
    """Change columns of the team."""
    connection.execute(update(team).where(team.c.id == team_id).values(**values))
