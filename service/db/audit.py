"""Rows of the audit trail, and where the chain of each team stands."""

from typing import Any
from uuid import UUID

from sqlalchemy import insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service.db.engine import Connection
from service.db.tables import audit_chain, audit_event, utc_now

# What the first event of a team refers to
NO_HASH = "0" * 64


def append_event(connection: Connection, team_id: UUID, **columns: Any) -> int:
    """Append an event; its sequence, without a gap within the team.

    The row of the chain is locked until the transaction ends: append last.
    """
    sequence = _next_sequence(connection, team_id)
    connection.execute(
        insert(audit_event).values(
            team_id=team_id, sequence=sequence, created_at=utc_now(), **columns
        )
    )
    return sequence


def _next_sequence(connection: Connection, team_id: UUID) -> int:
    taken = (
        update(audit_chain)
        .where(audit_chain.c.team_id == team_id)
        .values(next_sequence=audit_chain.c.next_sequence + 1)
        .returning(audit_chain.c.next_sequence)
    )
    found: int | None = connection.execute(taken).scalar_one_or_none()
    if found is None:
        _begin_chain(connection, team_id)
        found = connection.execute(taken).scalar_one()
    return found - 1


def _begin_chain(connection: Connection, team_id: UUID) -> None:
    """The chain of a team that has none; of two that begin it at once the second waits."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    connection.execute(
        dialect.insert(audit_chain)
        .values(
            team_id=team_id,
            next_sequence=1,
            sealed_sequence=0,
            sealed_hash=NO_HASH,
            pruned_sequence=0,
            pruned_hash=NO_HASH,
        )
        .on_conflict_do_nothing()
    )


def events_of(connection: Connection, team_id: UUID) -> list[Any]:
    """All events of a team in their order."""
    return list(
        connection.execute(
            select(audit_event)
            .where(audit_event.c.team_id == team_id)
            .order_by(audit_event.c.sequence)
        )
    )
