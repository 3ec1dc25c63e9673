"""Sessions of the pages: a key signs in once, then a cookie stands for it until it is ended."""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from service.db import api_keys
from service.db import web_sessions as rows
from service.db.engine import Connection, Database, Row
from service.errors import UnauthenticatedError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.key_checks import KEY_PRINCIPAL, actor_of_row, usable_actor
from service.jobs.key_tokens import digest

# Of one key, in so many browsers; the oldest is ended by one more.
PER_KEY: Final = 100
ENDED: Final = "the session has ended: sign in again"


class WebSession(Struct, frozen=True, kw_only=True):
    """A session as the audit trail digests it; its token is in the cookie only."""

    id: UUID
    key: str
    expires_at: datetime
    ended_at: datetime | None


class Opened(Struct, frozen=True, kw_only=True):
    """A session that was just opened, with the token that its cookie holds."""

    token: str
    expires_at: datetime


def open_session(connection: Connection, actor: Actor, *, hours: int, now: datetime) -> Opened:
    """Sign the actor of a key in for so long, or until the key expires."""
    public_id = actor.principal.removeprefix(KEY_PRINCIPAL)
    key = api_keys.find_by_public_id(connection, public_id)
    if key is None:
        raise UnauthenticatedError("there is no such API key")
    token = secrets.token_urlsafe(32)
    expires_at = now + timedelta(hours=hours)
    if key.expires_at is not None:
        expires_at = min(expires_at, key.expires_at)
    session_id = rows.insert_session(
        connection,
        team_id=actor.team_id,
        created_by=actor.name,
        api_key_id=key.id,
        token_digest=digest(token),
        expires_at=expires_at,
    )
    rows.delete_oldest(connection, key.id, keep=PER_KEY)
    opened = WebSession(id=session_id, key=public_id, expires_at=expires_at, ended_at=None)
    _record(connection, actor, "sign_in", after=opened)
    return Opened(token=token, expires_at=expires_at)


def actor_of_session(connection: Connection, token: str, now: datetime) -> tuple[Actor, datetime]:
    """Whose session it is, and when it ends at the latest.

    Raises `UnauthenticatedError` when there is none or it has ended, and `KeyRefusedError` when
    its key is revoked or expired.
    """
    session = rows.find_session(connection, digest(token))
    if session is None:
        raise UnauthenticatedError(ENDED)
    actor = usable_actor(_key_of(connection, session), now)
    if _has_ended(session, now):
        raise UnauthenticatedError(ENDED)
    return actor, session.expires_at


def close_session(
    connection: Connection, token: str, now: datetime, describe: Callable[[Actor], Actor]
) -> None:
    """Sign out; harmless when there is no such session or it has ended.

    `describe` adds to the actor what the audit trail keeps of the request.
    """
    session = rows.find_session(connection, digest(token))
    if session is None or _has_ended(session, now):
        return
    if not rows.end_session(connection, session.id):
        # By another request since it was read above
        return
    key = _key_of(connection, session)
    before = WebSession(
        id=session.id, key=key.public_id, expires_at=session.expires_at, ended_at=None
    )
    after = WebSession(id=session.id, key=before.key, expires_at=before.expires_at, ended_at=now)
    _record(connection, describe(actor_of_row(key)), "sign_out", before=before, after=after)


def forget_expired(database: Database, now: datetime) -> int:
    """Delete the sessions whose time has come; how many."""
    return rows.delete_expired(database, now)


def _key_of(connection: Connection, session: Row[Any]) -> Row[Any]:
    key = api_keys.get_key(connection, session.team_id, session.api_key_id)
    if key is None:
        raise UnauthenticatedError(ENDED)
    return key


def _has_ended(session: Row[Any], now: datetime) -> bool:
    return session.ended_at is not None or session.expires_at <= now


def _record(
    connection: Connection,
    actor: Actor,
    action: str,
    *,
    after: WebSession,
    before: WebSession | None = None,
) -> None:
    subject = f"web-session/{after.id}"
    audit.record(connection, actor, action=action, subject=subject, before=before, after=after)
