"""Whose key a request carries."""

from datetime import UTC, datetime
from typing import Any, Final

from service.db import api_keys
from service.db.engine import Connection, Row
from service.errors import UnauthenticatedError
from service.jobs.actors import Actor
from service.jobs.key_tokens import digest, matches, parse
from service.jobs.scopes import widest

# Compared with when there is no such key, so that the answer takes as long.
_NO_DIGEST: Final = digest("")
# What a principal begins with that is a key; its public id follows.
KEY_PRINCIPAL: Final = "key:"


class KeyRefusedError(UnauthenticatedError):
    """The key exists, but may not be used; `key` is whose it is, `reason` for the audit trail."""

    def __init__(self, detail: str, key: Row[Any], reason: str) -> None:
        super().__init__(detail)
        self.key = key
        self.reason = reason


def actor_of_key(connection: Connection, text: str, now: datetime) -> Actor:
    """The actor of the key `trn_<id>_<secret>`.

    Raises `UnauthenticatedError` when there is none and `KeyRefusedError` when its secret is
    wrong or it is expired or revoked; of which of these only the owner of the secret learns.
    """
    token = parse(text)
    key = api_keys.find_by_public_id(connection, token.public_id) if token else None
    known = matches(token.secret if token else "", key.secret_digest if key else _NO_DIGEST)
    if key is None or token is None:
        raise UnauthenticatedError("there is no such API key")
    if not known:
        raise KeyRefusedError("there is no such API key", key, "its secret is wrong")
    return usable_actor(key, now)


def usable_actor(key: Row[Any], now: datetime) -> Actor:
    """The actor of a stored key; raises `KeyRefusedError` when it is revoked or expired."""
    if key.revoked_at is not None:
        raise KeyRefusedError(f"the API key {key.public_id} is revoked", key, "it is revoked")
    if key.expires_at is not None and key.expires_at <= now:
        expired = key.expires_at.astimezone(UTC).isoformat()
        detail = f"the API key {key.public_id} expired at {expired}"
        raise KeyRefusedError(detail, key, "it is expired")
    return actor_of_row(key)


def actor_of_row(key: Row[Any]) -> Actor:
    """The actor of a stored key; what its role no longer holds is not granted."""
    return Actor(
        team_id=key.team_id,
        name=f"{key.name} [{key.public_id}]",
        principal=KEY_PRINCIPAL + key.public_id,
        role=key.role,
        scopes=frozenset(key.scopes) & widest(key.role),
    )
