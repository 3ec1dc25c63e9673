"""The text of an API key: `trn_<id>_<secret>`, made once and never stored as it is."""

import hashlib
import hmac
import re
import secrets
from typing import Final

import msgspec

PREFIX: Final = "trn_"
# The same alphabet and lengths that `mint` makes
_TOKEN = re.compile(r"trn_(?P<id>[0-9a-f]{16})_(?P<secret>[A-Za-z0-9_-]{43})")


class KeyToken(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a key; `secret` has 256 random bits."""

    public_id: str
    secret: str

    @property
    def text(self) -> str:
        """What its owner sends."""
        return f"{PREFIX}{self.public_id}_{self.secret}"


def mint() -> KeyToken:
    """A new key from the system's random numbers."""
    return KeyToken(public_id=secrets.token_hex(8), secret=secrets.token_urlsafe(32))


def parse(text: str) -> KeyToken | None:
    """The parts of what was sent; None when it has not the form of a key."""
    found = _TOKEN.fullmatch(text)
    return found and KeyToken(public_id=found["id"], secret=found["secret"])


def digest(secret: str) -> str:
    """What is stored: SHA-256, since a secret of 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(secret: str, stored: str) -> bool:
    """Whether the digests are the same, compared in constant time."""
    return hmac.compare_digest(digest(secret), stored)
