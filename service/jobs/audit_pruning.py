"""Removing old events of the audit trail, from its oldest end only.

What the oldest event that is left refers to is kept in the row of the chain, and said by an event
of its own: a check demands that one, so that events that were removed by hand are missed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from service.db import audit_chains
from service.db.engine import Database
from service.jobs import audit
from service.jobs.actors import program
from service.jobs.audit_documents import AuditEventOut

ACTION: Final = "prune_audit_events"
# Events a transaction: some 20 ms, in which the team's changes wait.
EVENTS_PER_STEP: Final = 5_000
# What retention removes is up to so much older: else each minute of a busy service would add an
# event to say that some were removed.
RETENTION_GRACE: Final = timedelta(days=1)


def apply_retention(database: Database, days: int) -> int:
    """Remove some events that are older than the retention; returns how many. 0 days: none."""
    if not days:
        return 0
    moment = datetime.now(UTC) - timedelta(days=days)
    removed = 0
    for team_id in _teams(database, moment - RETENTION_GRACE):
        removed += _prune(database, team_id, moment, audit.RETENTION)
    return removed


def prune(database: Database, days: int) -> Iterator[int]:
    """Remove all events that are older; yields how many after each step."""
    moment = datetime.now(UTC) - timedelta(days=days)
    for team_id in _teams(database, moment):
        while removed := _prune(database, team_id, moment, "audit-prune"):
            yield removed


def count(database: Database, days: int) -> int:
    """How many events `prune` would remove."""
    with database.read() as connection:
        return audit_chains.count_prunable(connection, datetime.now(UTC) - timedelta(days=days))


def confirms(event: AuditEventOut, sequence: int, last_hash: str) -> bool:
    """Whether the event says that all up to this one were removed."""
    return (
        event.action == ACTION
        and event.subject == _subject(sequence)
        and event.after_digest == audit.digest_of(_anchor(sequence, last_hash))
    )


def _teams(database: Database, moment: datetime) -> list[UUID]:
    with database.read() as connection:
        return audit_chains.teams_with_older(connection, moment)


def _prune(database: Database, team_id: UUID, moment: datetime, command: str) -> int:
    with database.write() as connection:
        chain = audit_chains.lock_chain(connection, team_id)
        old = audit_chains.list_prunable(connection, chain, moment, EVENTS_PER_STEP)
        if not old:
            return 0
        last = old[-1]
        audit_chains.delete_up_to(connection, team_id, last.sequence, last.hash)
        audit.record(
            connection,
            program(command, team_id),
            action=ACTION,
            subject=_subject(last.sequence),
            after=_anchor(last.sequence, last.hash),
            detail=f"{len(old)} events, the last of {last.created_at:%Y-%m-%d %H:%M:%S} UTC",
        )
    return len(old)


def _subject(sequence: int) -> str:
    return f"audit-event/{sequence}"


def _anchor(sequence: int, last_hash: str) -> dict[str, object]:
    return {"sequence": sequence, "hash": last_hash}
