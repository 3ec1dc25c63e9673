"""Rows of webhook endpoints; a deleted one stays for the log of its deliveries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, insert, select, update

from service.db.engine import Connection, Row
from service.db.tables import delivery, webhook_endpoint


def insert_endpoint(connection: Connection, **columns: Any) -> UUID:
    """Store an endpoint; its id."""
    made = connection.execute(
        insert(webhook_endpoint).values(**columns).returning(webhook_endpoint.c.id)
    )
    found: UUID = made.scalar_one()
    return found


def get_endpoint(connection: Connection, team_id: UUID, endpoint_id: UUID) -> Row[Any] | None:
    """The endpoint of the team, unless it is deleted, or None."""
    c = webhook_endpoint.c
    query = select(webhook_endpoint).where(
        c.team_id == team_id, c.id == endpoint_id, c.deleted_at.is_(None)
    )
    return connection.execute(query).one_or_none()


def find_endpoint(connection: Connection, endpoint_id: UUID) -> Row[Any] | None:
    """The endpoint of whatever team, deleted or not, or None."""
    query = select(webhook_endpoint).where(webhook_endpoint.c.id == endpoint_id)
    return connection.execute(query).one_or_none()


def list_endpoints(
    connection: Connection, team_id: UUID, *, after: UUID | None, limit: int
) -> list[Row[Any]]:
    """Endpoints of the team, the oldest first (an id begins with its moment), after the id."""
    c = webhook_endpoint.c
    query = select(webhook_endpoint).where(c.team_id == team_id, c.deleted_at.is_(None))
    if after is not None:
        query = query.where(c.id > after)
    return list(connection.execute(query.order_by(c.id).limit(limit)))


def num_endpoints(connection: Connection, team_id: UUID) -> int:
    """How many endpoints the team has."""
    c = webhook_endpoint.c
    query = select(func.count()).where(c.team_id == team_id, c.deleted_at.is_(None))
    return connection.scalar(query) or 0


def any_endpoint(connection: Connection) -> bool:
    """Whether any team has an endpoint."""
    query = select(webhook_endpoint.c.id).where(webhook_endpoint.c.deleted_at.is_(None)).limit(1)
    return connection.execute(query).first() is not None


def list_secrets(connection: Connection, *, lock: bool = False) -> list[Row[Any]]:
    """(id, team_id, secrets) of all teams' endpoints, in one order of locks."""
    c = webhook_endpoint.c
    query = select(c.id, c.team_id, c.secrets).where(c.deleted_at.is_(None)).order_by(c.id)
    return list(connection.execute(query.with_for_update() if lock else query))


def replace_secrets(
    connection: Connection, endpoint_id: UUID, secrets: Sequence[Mapping[str, Any]]
) -> None:
    """Put the same secrets in another form in their place; the caller has locked the row."""
    c = webhook_endpoint.c
    connection.execute(
        update(webhook_endpoint).where(c.id == endpoint_id).values(secrets=list(secrets))
    )


def change_endpoint(
    connection: Connection,
    endpoint_id: UUID,
    *,
    version: int,
    now: datetime,
    values: Mapping[str, Any],
) -> bool:
    """Change the row; False when its version is no longer the given one, or it is deleted."""
    c = webhook_endpoint.c
    changed = connection.execute(
        update(webhook_endpoint)
        .where(c.id == endpoint_id, c.version == version, c.deleted_at.is_(None))
        .values(version=version + 1, updated_at=now, **values)
    )
    return changed.rowcount == 1


def disable(connection: Connection, endpoint_id: UUID, *, reason: str, now: datetime) -> bool:
    """Send nothing to it any more, whatever its version is; False when that is so already."""
    c = webhook_endpoint.c
    changed = connection.execute(
        update(webhook_endpoint)
        .where(c.id == endpoint_id, c.disabled_at.is_(None), c.deleted_at.is_(None))
        .values(
            version=c.version + 1, updated_at=now, disabled_at=now, disabled_reason=reason[:500]
        )
    )
    return changed.rowcount == 1


def last_ends(
    connection: Connection, endpoint_id: UUID, *, since: datetime, limit: int
) -> list[str]:
    """States of what was last delivered or given up, the newest first, since the moment."""
    c = delivery.c
    query = select(c.state).where(
        c.endpoint_id == endpoint_id, c.state.in_(("delivered", "dead")), c.ended_at > since
    )
    return list(connection.scalars(query.order_by(c.ended_at.desc(), c.id.desc()).limit(limit)))
