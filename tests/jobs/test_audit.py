"""What one event keeps, and what it must not keep, on both databases."""

import hashlib
from datetime import date
from typing import Any

import rfc8785

from service.db.engine import Database
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.rate_corrections import correct_rate
from service.jobs.rate_documents import CorrectionIn, RateIn
from service.jobs.rates import create_rate
from service.reports.money import Money
from tests.jobs.audit_trails import ACTOR, events, record

PRICE = "7.777"


def test_names_of_changed_fields_and_digests_but_no_values(database: Database) -> None:
    rate = RateIn(
        gpu_type="H100-SXM",
        price_per_gpu_hour=Money(amount=PRICE, currency="EUR"),
        valid_from=date(2026, 10, 1),
        source="example amount",
    )
    with database.write() as connection:
        old = create_rate(connection, ACTOR, rate)
    with database.write() as connection:
        correction = CorrectionIn(valid_until=date(2027, 1, 1), reason="it ends")
        correct_rate(connection, ACTOR, old.id, correction, version=old.version)
    created, corrected = events(database)
    assert (created.before_digest, created.changed) == (None, [])
    assert corrected.before_digest == created.after_digest
    assert corrected.after_digest != created.after_digest
    assert corrected.changed == ["id", "reason", "recorded_at", "valid_until"]
    assert PRICE not in repr([created, corrected])


def test_a_digest_is_that_of_the_document_as_it_is_answered() -> None:
    money = Money(amount="1.00", currency="EUR")
    # Without the amount: it could be found by trying
    answered: dict[str, Any] = {"on": "2026-10-01", "price": {"amount": None, "currency": "EUR"}}
    expected = hashlib.sha256(rfc8785.dumps(answered)).hexdigest()
    found = audit.digest_of({"price": money, "on": date(2026, 10, 1)})
    assert found == f"sha256:{expected}"
    assert audit.digest_of(None) is None


def test_any_text_is_kept_as_far_as_it_fits(database: Database) -> None:
    """A path or a name may hold what a database refuses, or more than it takes."""
    actor = Actor(
        name="\0" + "n" * 300,
        principal="p" * 300,
        request="r" * 600,
        trace_id="t" * 200,
        address="a" * 100,
    )
    record(database, 1, actor=actor, subject="s" * 400, detail="\ud800" + "d" * 600)
    (event,) = events(database)
    assert event.actor == "\ufffd" + "n" * 199
    assert event.detail == "?" + "d" * 499
    kept = (event.principal, event.subject, event.request, event.trace_id, event.address)
    assert [len(text or "") for text in kept] == [200, 300, 500, 128, 64]
