"""Rows of sessions: who has signed in on the pages."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, delete, insert, select, update

from service.db.engine import Connection, Database, Row
from service.db.tables import utc_now, web_session

# Sessions deleted by one transaction
FORGOTTEN_PER_STEP = 1_000


def insert_session(connection: Connection, **columns: Any) -> UUID:
    """Store a session; its id."""
    made = connection.execute(insert(web_session).values(**columns).returning(web_session.c.id))
    found: UUID = made.scalar_one()
    return found


def find_session(connection: Connection, token_digest: str) -> Row[Any] | None:
    """The session with this token, ended or not, or None."""
    query = select(web_session).where(web_session.c.token_digest == token_digest)
    return connection.execute(query).one_or_none()


def end_session(connection: Connection, session_id: UUID) -> bool:
    """End the session; False when it has ended already."""
    c = web_session.c
    return _end(connection, c.id == session_id) == 1


def end_of_key(connection: Connection, api_key_id: UUID) -> int:
    """End all sessions of the key; how many there were."""
    return _end(connection, web_session.c.api_key_id == api_key_id)


def delete_oldest(connection: Connection, api_key_id: UUID, *, keep: int) -> None:
    """Delete the sessions of the key but the newest ones (an id begins with its moment)."""
    c = web_session.c
    newest = select(c.id).where(c.api_key_id == api_key_id).order_by(c.id.desc()).limit(keep)
    kept = select(newest.subquery().c.id)
    connection.execute(delete(web_session).where(c.api_key_id == api_key_id, c.id.not_in(kept)))


def delete_expired(database: Database, now: datetime) -> int:
    """Delete the sessions whose time has come; how many. Nothing is written when there are none."""
    c = web_session.c
    expired = select(c.id).where(c.expires_at <= now).limit(FORGOTTEN_PER_STEP)
    deleted = 0
    while True:
        with database.read() as connection:
            found = list(connection.scalars(expired))
        if not found:
            return deleted
        with database.write() as connection:
            connection.execute(delete(web_session).where(c.id.in_(found)))
        deleted += len(found)


def _end(connection: Connection, which: ColumnElement[bool]) -> int:
    c = web_session.c
    now = utc_now()
    ended = connection.execute(
        update(web_session)
        .where(which, c.ended_at.is_(None))
        .values(ended_at=now, updated_at=now, version=c.version + 1)
    )
    return int(ended.rowcount)
