"""Signatures of webhooks as Standard Webhooks 1.0.0 has them (symmetric, `v1`)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final

PREFIX: Final = "whsec_"
# The standard has 24 to 64.
SECRET_BYTES: Final = 32


def mint() -> str:
    """A new secret from the system's random numbers: `whsec_<base64>`."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def headers(
    payload: bytes, *, message_id: str, sent_at: datetime, secrets: Sequence[str]
) -> dict[str, str]:
    """The three headers of an attempt; a signature for each secret, the newest first."""
    timestamp = str(int(sent_at.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), payload))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(signed, secret) for secret in secrets),
    }


def _signature(signed: bytes, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
