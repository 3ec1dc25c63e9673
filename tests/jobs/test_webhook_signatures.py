"""Signatures and secrets, checked by the standard's own library."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from service.jobs import webhook_secrets
from service.jobs.webhook_secrets import SecretError, SecretsError, Vault
from service.jobs.webhook_signatures import headers, mint

NOW = datetime.now(UTC).replace(microsecond=0)
PAYLOAD = '{"type":"run.reported","data":{"reason":"é"}}'.encode()


def test_the_signature_of_the_standards_example() -> None:
    """The vector of the library's own documentation."""
    found = headers(
        b'{"test": 2432232314}',
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        sent_at=datetime.fromtimestamp(1614265330, UTC),
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert found == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_minted_secret_verifies_what_it_has_signed() -> None:
    old, new = mint(), mint()
    assert old != new
    # Not NOW: who verifies takes five minutes, and the module may be that old.
    sent_at = datetime.now(UTC)
    found = headers(PAYLOAD, message_id="msg_1", sent_at=sent_at, secrets=[new, old])
    assert found["webhook-signature"].count("v1,") == 2
    for secret in (old, new):
        assert Webhook(secret).verify(PAYLOAD, found) == {
            "type": "run.reported",
            "data": {"reason": "é"},
        }
    for secret, body, changed in (
        (mint(), PAYLOAD, {}),
        (new, PAYLOAD + b" ", {}),
        (new, PAYLOAD, {"webhook-id": "msg_2"}),
        (new, PAYLOAD, {"webhook-timestamp": str(int(sent_at.timestamp()) - 1)}),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, {**found, **changed})


def test_secrets_are_encrypted_under_the_newest_key_and_read_under_all() -> None:
    first, second = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    secret = mint()
    stored = webhook_secrets.first(Vault(first), secret, NOW)
    assert secret not in repr(stored)
    both = Vault(f"{second}, {first}")
    assert webhook_secrets.live(both, stored, NOW) == [secret]
    with pytest.raises(SecretError, match="another key"):
        webhook_secrets.live(Vault(second), stored, NOW)
    with pytest.raises(SecretError, match="not set"):
        webhook_secrets.live(Vault(), stored, NOW)
    # What was stored before there was a key is read as it is.
    plain = webhook_secrets.first(Vault(), secret, NOW)
    assert plain[0]["secret"] == secret
    assert webhook_secrets.live(both, plain, NOW) == [secret]


def test_a_rotated_secret_signs_until_its_time_is_over() -> None:
    vault = Vault(Fernet.generate_key().decode())
    old, new, newest = mint(), mint(), mint()
    stored = webhook_secrets.first(vault, old, NOW)
    stored = webhook_secrets.rotated(vault, stored, new, overlap_s=86_400, now=NOW)
    day = NOW + timedelta(days=1)
    assert webhook_secrets.ends_of_old(stored, NOW) == [day]
    assert webhook_secrets.live(vault, stored, day - timedelta(seconds=1)) == [new, old]
    assert webhook_secrets.live(vault, stored, day) == [new]
    # Rotated again: an old one does not live longer for it, and 0 ends all at once.
    hour = NOW + timedelta(hours=1)
    again = webhook_secrets.rotated(vault, stored, newest, overlap_s=172_800, now=hour)
    assert webhook_secrets.live(vault, again, hour) == [newest, new, old]
    assert webhook_secrets.live(vault, again, day) == [newest, new]
    at_once = webhook_secrets.rotated(vault, again, mint(), overlap_s=0, now=hour)
    assert len(webhook_secrets.live(vault, at_once, hour)) == 1
    # No more than the header has room for, and none ends sooner than it was promised.
    assert len(again) == webhook_secrets.MAX_LIVE
    with pytest.raises(SecretsError, match="wait until 2"):
        webhook_secrets.rotated(vault, again, mint(), overlap_s=86_400, now=hour)
    assert len(webhook_secrets.rotated(vault, again, mint(), overlap_s=0, now=hour)) == 1
    assert len(webhook_secrets.rotated(vault, again, mint(), overlap_s=1, now=day)) == 3
