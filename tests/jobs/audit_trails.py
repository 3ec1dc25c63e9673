"""Trails of events for tests: sealed ones, and ways to tamper with them by SQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, insert, select, update

from service.db.audit_chains import Seal, write_seals
from service.db.engine import Database
from service.db.tables import audit_chain, audit_event
from service.jobs import audit
from service.jobs.actors import DEFAULT_TEAM_ID, Actor
from service.jobs.audit_checks import Checked, Head, check
from service.jobs.audit_documents import AuditEventOut
from service.jobs.audit_hashes import event_hash, event_of
from service.jobs.audit_sealing import seal

ACTOR = Actor(name="Ada [0123456789abcdef]", principal="key:0123456789abcdef")


def record(database: Database, number: int = 1, *, actor: Actor = ACTOR, **columns: Any) -> None:
    """So many events, each in a transaction of its own."""
    for count in range(number):
        given = {"action": "create_rate", "subject": f"gpu-hour-rate/{count}", **columns}
        with database.write() as connection:
            audit.record(connection, actor, **given)


def sealed(database: Database, number: int) -> None:
    """So many sealed events."""
    record(database, number)
    seal(database)


def events(database: Database) -> list[AuditEventOut]:
    """All events of the default team, as they are stored."""
    with database.read() as connection:
        query = select(audit_event).where(audit_event.c.team_id == DEFAULT_TEAM_ID)
        return [event_of(row) for row in connection.execute(query.order_by(audit_event.c.sequence))]


def checked(database: Database, head: Head | None = None) -> Checked:
    """What a check of the default team finds."""
    (found,) = check(database, team="default", head=head)
    return found


def kinds(database: Database, head: Head | None = None) -> list[tuple[str, int]]:
    """The findings: kind and sequence."""
    return [(finding.kind, finding.sequence) for finding in checked(database, head).findings]


def change(database: Database, sequence: int, /, **values: Any) -> None:
    """Change an event by SQL."""
    with database.write() as connection:
        connection.execute(
            update(audit_event).where(audit_event.c.sequence == sequence).values(**values)
        )


def change_chain(database: Database, **values: Any) -> None:
    """Change the row of the chain by SQL."""
    with database.write() as connection:
        connection.execute(update(audit_chain).values(**values))


def remove(database: Database, *sequences: int) -> None:
    """Delete events by SQL."""
    with database.write() as connection:
        connection.execute(delete(audit_event).where(audit_event.c.sequence.in_(sequences)))


def put(database: Database, sequence: int, /, **values: Any) -> None:
    """Insert a copy of the first event by SQL under another sequence."""
    with database.write() as connection:
        first = connection.execute(select(audit_event).limit(1)).one()
        copied = {**first._mapping, "sequence": sequence, **values}
        connection.execute(insert(audit_event).values(**copied))


def rehash(database: Database, first: int) -> None:
    """Hash all events from the sequence on anew, as somebody would who rewrites the trail."""
    found = events(database)
    last = found[first - 2].hash if first > 1 else found[0].previous_hash
    seals = list[Seal]()
    for event in found[first - 1 :]:
        assert last is not None
        seals.append(Seal(event.sequence, last, event_hash(event, last)))
        last = seals[-1].hash
    with database.write() as connection:
        write_seals(connection, DEFAULT_TEAM_ID, seals)


def age(database: Database, sequences: range, days: float) -> None:
    """Give events of a fresh trail an older moment, before they are sealed."""
    with database.write() as connection:
        connection.execute(
            update(audit_event)
            .where(audit_event.c.sequence.in_(sequences))
            .values(created_at=datetime.now(UTC) - timedelta(days=days))
        )
