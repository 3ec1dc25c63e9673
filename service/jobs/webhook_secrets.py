"""Secrets of webhook endpoints: readable to sign with, encrypted where they lie.

A secret is stored as `{"secret": …, "created_at": …, "expires_at": …}`, the newest first. Its text
is a Fernet token under `TRAINARD_SECRETS_KEY`, or the secret itself where no key is set.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from service.jobs.reason_sentences import say
from service.jobs.webhook_signatures import PREFIX

# So many are signed with at a time: the header has room for them.
MAX_LIVE: Final = 3


class SecretError(Exception):
    """A secret that cannot be read; says nothing of it."""


class SecretsError(Exception):
    """Why there can be no further secret now, in a sentence."""


class Vault:
    """Encrypts and decrypts under the keys of the settings, the newest first; none: plain."""

    def __init__(self, keys: str = "") -> None:
        parts = [part.strip() for part in keys.split(",") if part.strip()]
        self._fernet = MultiFernet([Fernet(part) for part in parts]) if parts else None

    @property
    def encrypts(self) -> bool:
        """Whether there is a key."""
        return self._fernet is not None

    def hidden(self, secret: str) -> str:
        """The secret as it is stored."""
        return secret if self._fernet is None else self._fernet.encrypt(secret.encode()).decode()

    def shown(self, stored: str) -> str:
        """The stored secret as it is signed with; raises `SecretError`."""
        if stored.startswith(PREFIX):
            return stored
        if self._fernet is None:
            raise SecretError(say("secret_without_key"))
        try:
            return self._fernet.decrypt(stored.encode()).decode()
        except InvalidToken:
            raise SecretError(say("secret_of_other_key")) from None


def first(vault: Vault, secret: str, now: datetime) -> list[dict[str, Any]]:
    """What is stored of a new endpoint's secret."""
    return [{"secret": vault.hidden(secret), "created_at": now.isoformat(), "expires_at": None}]


def rotated(
    vault: Vault, stored: Sequence[dict[str, Any]], secret: str, *, overlap_s: int, now: datetime
) -> list[dict[str, Any]]:
    """What is stored when a new secret takes over and the live ones go on for `overlap_s`.

    Raises `SecretsError` when one would have to end sooner than it was promised.
    """
    until = now + timedelta(seconds=overlap_s)
    kept = []
    for entry in _live(stored, now):
        ends = until if entry["expires_at"] is None else min(until, _moment(entry["expires_at"]))
        if ends > now:
            kept.append({**entry, "expires_at": ends.isoformat()})
    if len(kept) >= MAX_LIVE:
        ends = min(_moment(entry["expires_at"]) for entry in kept)
        raise SecretsError(
            f"{len(kept)} secrets of the endpoint sign already, which is the limit: wait until "
            f"{ends.isoformat(timespec='seconds')}, or rotate with overlap_s 0, which ends them all"
        )
    return [*first(vault, secret, now), *kept]


def live(vault: Vault, stored: Sequence[dict[str, Any]], now: datetime) -> list[str]:
    """The secrets to sign with, the newest first; raises `SecretError`."""
    return [vault.shown(entry["secret"]) for entry in _live(stored, now)][:MAX_LIVE]


def ends_of_old(stored: Sequence[dict[str, Any]], now: datetime) -> list[datetime]:
    """When the rotated secrets that are still signed with end."""
    return [_moment(entry["expires_at"]) for entry in _live(stored, now) if entry["expires_at"]]


def _live(stored: Sequence[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    return [
        entry
        for entry in stored
        if entry["expires_at"] is None or _moment(entry["expires_at"]) > now
    ]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
