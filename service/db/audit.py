"""Rows of the audit trail: appended with a sequence that has no gap, and read by it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Select, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service.db.engine import Connection, Row
from service.db.tables import audit_chain, audit_event, utc_now

# What the first event of a team refers to
NO_HASH = "0" * 64


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of a team; None: any."""

    action: str | None = None
    actor: str | None = None
    outcome: str | None = None
    subject: str | None = None
    created_from: datetime | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def append_event(connection: Connection, team_id: UUID, **columns: Any) -> int:
    """Append an event; its sequence, without a gap within the team.

    The row of the chain is locked until the transaction ends: append last. Because of that lock no
    event can be seen while one with a smaller sequence is not committed yet, which the sealer
    relies on: the transaction that takes the next number waits for the end of the one before.
    """
    return append_events(connection, team_id, [columns])


def append_events(
    connection: Connection, team_id: UUID, events: Sequence[Mapping[str, Any]]
) -> int:
    """Append several events in their order, as `append_event` does; the first one's sequence."""
    first = _take_sequences(connection, team_id, len(events))
    now = utc_now()
    connection.execute(
        insert(audit_event),
        [
            {**event, "team_id": team_id, "sequence": sequence, "created_at": now}
            for sequence, event in enumerate(events, first)
        ],
    )
    return first


def _take_sequences(connection: Connection, team_id: UUID, number: int) -> int:
    taken = (
        update(audit_chain)
        .where(audit_chain.c.team_id == team_id)
        .values(next_sequence=audit_chain.c.next_sequence + number)
        .returning(audit_chain.c.next_sequence)
    )
    found: int | None = connection.execute(taken).scalar_one_or_none()
    if found is None:
        _begin_chain(connection, team_id)
        found = connection.execute(taken).scalar_one()
    return found - number


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


def events_of(connection: Connection, team_id: UUID) -> list[Row[Any]]:
    """All events of a team in their order."""
    return list(connection.execute(_of_team(team_id).order_by(audit_event.c.sequence)))


def list_from(
    connection: Connection, team_id: UUID, wanted: AuditFilter, *, after: int | None, limit: int
) -> list[Row[Any]]:
    """Events of a team, oldest first, behind the sequence `after` (None: from the first)."""
    query = _filtered(_of_team(team_id), wanted)
    if after is not None:
        query = query.where(audit_event.c.sequence > after)
    return list(connection.execute(query.order_by(audit_event.c.sequence).limit(limit)))


def list_newest(
    connection: Connection, team_id: UUID, wanted: AuditFilter, *, before: int | None, limit: int
) -> list[Row[Any]]:
    """Events of a team, newest first, before the sequence `before` (None: from the last)."""
    query = _filtered(_of_team(team_id), wanted)
    if before is not None:
        query = query.where(audit_event.c.sequence < before)
    return list(connection.execute(query.order_by(audit_event.c.sequence.desc()).limit(limit)))


def last_sequence(connection: Connection, team_id: UUID) -> int:
    """The largest sequence that is stored; 0 without events."""
    newest = select(func.max(audit_event.c.sequence)).where(audit_event.c.team_id == team_id)
    return connection.scalar(newest) or 0


def _of_team(team_id: UUID) -> Select[Any]:
    return select(audit_event).where(audit_event.c.team_id == team_id)


def _filtered(query: Select[Any], wanted: AuditFilter) -> Select[Any]:
    c = audit_event.c
    for name in ("action", "actor", "outcome", "subject"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(c[name] == value)
    if wanted.created_from is not None:
        query = query.where(c.created_at >= wanted.created_from)
    if wanted.created_after is not None:
        query = query.where(c.created_at > wanted.created_after)
    if wanted.created_before is not None:
        query = query.where(c.created_at < wanted.created_before)
    return query
