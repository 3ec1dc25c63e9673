"""Use cases of reports: asked for, listed, read with and without money, deleted, kept a while."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pyarrow.parquet as pq
import pytest

from service.db.engine import Database
from service.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from service.jobs import batches, deletions, report_making, report_retention, reports, repricings
from service.jobs.actors import Actor
from service.jobs.report_documents import ReportIn
from service.jobs.repricings import RepricingIn
from service.jobs.teams import create_team
from service.reports.report_formats import FORMATS
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import ACTOR, submit
from tests.jobs.report_bodies import (
    SLOW,
    VIEWER,
    a_profile,
    a_rate,
    ask,
    batch,
    document,
    listed,
    look_at,
    make,
    one,
)

# So that an amount is found as text wherever it leaks
PRICE = "1234.5678"
BUDGET = {"cost_of_loss_per_30_days": {"amount": "987654321.00", "currency": "EUR"}}


def priced(database: Database) -> tuple[UUID, UUID]:
    a_profile(database)
    a_rate(database, PRICE, "2026-10-01")
    past = batch(database, one("a"), one("gone", **SLOW), start_on="2026-11-01")
    return past, batch(database, one("a", **SLOW), one("came", **SLOW))


def made(database: Database, batch_id: UUID, **changes: Any) -> UUID:
    report_id = ask(database, batch_id, **changes)
    report_making.run(database, report_id)
    return report_id


def test_a_report_is_asked_for_made_and_listed(database: Database) -> None:
    past, new = priced(database)
    asked = look_at(database, ask(database, new, baseline_batch_id=str(past), name="mine"))
    assert (asked.state, asked.name, asked.headline) == ("queued", "mine", None)
    assert (asked.content_url, asked.sha256, asked.warnings) == (None, None, None)
    report_making.run(database, asked.id)
    found = look_at(database, asked.id)
    assert (found.state, found.batch_id, found.baseline_batch_id) == ("succeeded", new, past)
    assert found.content_url == f"/v1/reports/{asked.id}/content"
    assert found.headline == document(database, asked.id).headline
    assert (found.version, found.created_by) == (2, "local")
    other = made(database, past)
    assert [one.id for one in listed(database)] == [other, asked.id]
    assert [one.id for one in listed(database, batch=past)] == [other]
    assert [one.id for one in listed(database, state="queued")] == []
    assert [one.id for one in listed(database, run=uuid4())] == []
    assert [one.id for one in listed(database, schedule=str(uuid4()))] == []
    with pytest.raises(NotFoundError):
        listed(database, schedule="nightly")


def test_pages_follow_each_other(database: Database) -> None:
    _, new = priced(database)
    ids = [ask(database, new) for _ in range(3)][::-1]
    found: list[UUID] = []
    token = None
    while token is not None or not found:
        with database.read() as connection:
            page = reports.list_page(
                connection, ACTOR, reports.ReportChoice(), page_size=2, page_token=token
            )
        found += [one.id for one in page.items]
        token = page.next_page_token
    assert found == ids


def test_another_pricing_is_another_report(database: Database) -> None:
    _, new = priced(database)
    first = make(database, new)
    a_rate(database, "2469.1356", "2026-10-01", center="research")
    with database.write() as connection:
        number = repricings.reprice(connection, ACTOR, new, RepricingIn()).pricing
    again = make(database, new, pricing=number)
    (kept, repriced) = (found.headline.cost_of_loss_per_30_days for found in (first, again))
    assert kept is not None
    assert repriced is not None
    # The price is twice what it was; cents are rounded once.
    assert abs(2 * float(kept.amount) - float(repriced.amount)) <= 0.02
    assert document(database, first.report_id) == first
    assert (again.batch.pricing, first.batch.pricing) == (2, 1)
    assert again.reproduce.commands[-1].startswith(f"trainard report make {new} --pricing 2 ")
    assert re.search("pricing", str(document(database, again.report_id, VIEWER).reproduce)) is None
    with pytest.raises(ForbiddenError):
        ask(database, new, actor=VIEWER, pricing=2)
    with pytest.raises(NotFoundError, match="has no pricing 3"):
        ask(database, new, pricing=3)
    assert look_at(database, again.report_id, VIEWER).pricing is None


def leaks(text: str, secrets: set[str]) -> list[str]:
    return sorted(secret for secret in secrets if secret in text)


def amounts_of(value: Any) -> set[str]:
    """Every amount, rate id and price in a document."""
    if isinstance(value, dict):
        own = {str(value["amount"])} if "amount" in value else set()
        own |= {str(value["rate_id"])} if value.get("rate_id") else set()
        return own.union(*(amounts_of(part) for part in value.values()))
    if isinstance(value, list):
        return set[str]().union(*(amounts_of(part) for part in value))
    return set()


def test_money_is_withheld_in_the_document_every_format_and_the_list(database: Database) -> None:
    past, new = priced(database)
    report_id = made(
        database, new, baseline_batch_id=str(past), budget=BUDGET, report={"remedies": True}
    )
    whole = document(database, report_id)
    secrets = amounts_of(msgspec.to_builtins(whole)) - {"0.00"}
    assert len(secrets) >= 10
    assert PRICE in secrets
    open_json = msgspec.json.encode(whole).decode()
    assert leaks(open_json, secrets) == sorted(secrets)
    plain = document(database, report_id, VIEWER)
    for name, shape in FORMATS.items():
        shown = shape.write(whole, "en")
        if name == "parquet":
            table = pq.read_table(io.BytesIO(shown))
            assert leaks(str(table.to_pylist()), secrets)
            hidden = pq.read_table(io.BytesIO(shape.write(plain, "en")))
            text = f"{hidden.to_pylist()} {hidden.schema.metadata}"
        else:
            text = shape.write(plain, "en").decode()
        assert leaks(text, secrets) == [], name
        assert leaks(re.sub(r"[\s\u202f\u00a0,]", "", text), secrets) == [], name
    seen, hidden_detail = look_at(database, report_id), look_at(database, report_id, VIEWER)
    assert leaks(msgspec.json.encode(hidden_detail).decode(), secrets) == []
    assert (hidden_detail.sha256, hidden_detail.pricing) == (None, None)
    assert seen.sha256 is not None
    assert hidden_detail.headline is not None
    assert hidden_detail.headline.cost_status == "withheld"
    assert hidden_detail.budget is not None
    assert hidden_detail.budget.status == "withheld"
    (in_list,) = listed(database, VIEWER)
    assert leaks(msgspec.json.encode(in_list).decode(), {*secrets, seen.sha256}) == []


def test_every_format_has_the_same_numbers(database: Database) -> None:
    _, new = priced(database)
    report = make(database, new)
    written = {name: shape.write(report, "en") for name, shape in FORMATS.items()}
    assert msgspec.json.decode(written["json"], type=type(report)) == report
    rows = list(csv.DictReader(io.StringIO(written["csv"].decode("utf-8-sig"))))
    table = pq.read_table(io.BytesIO(written["parquet"])).to_pylist()
    for item, row, record in zip(report.items, rows, table, strict=True):
        (column,) = [name for name in row if name.startswith("gpu_hours_lost_per_30_days")]
        assert float(row[column]) == record[column] == item.gpu_hours_lost_per_30_days
    assert json.loads(written["json"])["headline"]["gpu_hours_lost_per_30_days"] == (
        report.headline.gpu_hours_lost_per_30_days
    )


def test_what_cannot_be_reported_on_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    past, new = priced(database)
    waiting = submit(database, one("a")).id
    for batch_id, changes in ((waiting, {}), (new, {"baseline_batch_id": str(waiting)})):
        with pytest.raises(ConflictError, match="is queued"):
            ask(database, batch_id, **dict[str, Any](changes))
    for batch_id, changes in ((uuid4(), {}), (new, {"baseline_batch_id": str(uuid4())})):
        with pytest.raises(NotFoundError):
            ask(database, batch_id, **dict[str, Any](changes))
    with pytest.raises(NotFoundError, match="has no pricing 2"):
        ask(database, new, baseline_batch_id=str(past), baseline_pricing=2)
    with pytest.raises(ForbiddenError, match="a budget of money"):
        ask(database, new, actor=VIEWER, budget=BUDGET)
    for cost, pointer in (
        ({"amount": "1", "currency": "XXX"}, "currency"),
        ({"amount": "-1", "currency": "EUR"}, "amount"),
        ({"amount": "1", "currency": "USD"}, "currency"),
    ):
        with pytest.raises(InvalidError) as refusal:
            ask(database, new, budget={"cost_of_loss_per_30_days": cost})
        (fault,) = refusal.value.errors
        assert fault.pointer == f"/budget/cost_of_loss_per_30_days/{pointer}"
    assert fault.detail == "the budget is in USD, but the batch is priced in EUR"
    with pytest.raises(InvalidError, match="a budget names GPU-hours, money, or both"):
        ask(database, new, budget={})
    # What counts is the pricing that the report is made with.
    a_rate(database, "3", "2026-10-01", currency="USD")
    with database.write() as connection:
        repricings.reprice(connection, ACTOR, new, RepricingIn(currency="USD"))
    dollars = {"cost_of_loss_per_30_days": {"amount": "1", "currency": "USD"}}
    report = document(database, made(database, new, budget=dollars, pricing=2))
    assert report.budget is not None
    assert report.budget.status == "over"
    with pytest.raises(InvalidError, match="the batch is priced in USD"):
        ask(database, new, budget=BUDGET, pricing=2)
    monkeypatch.setattr(reports, "MOST_UNFINISHED", 1)
    ask(database, new)
    with pytest.raises(UnavailableError):
        ask(database, new)


def test_reports_of_another_team_are_absent(database: Database) -> None:
    _, new = priced(database)
    report_id = made(database, new)
    with database.write() as connection:
        team = create_team(connection, "team", slug="other")
    stranger = Actor(team_id=team.id, name="stranger")
    assert listed(database, stranger) == []
    for call in (look_at, document):
        with pytest.raises(NotFoundError):
            call(database, report_id, stranger)
    with pytest.raises(NotFoundError), database.write() as connection:
        reports.delete(connection, stranger, report_id, expected_version=2)


def test_a_report_outlives_its_batches(database: Database) -> None:
    past, new = priced(database)
    report = make(database, new, baseline_batch_id=str(past))
    for batch_id in (past, new):
        with database.write() as connection:
            version = batches.get(connection, ACTOR, batch_id).version
            deletions.delete_batch(connection, ACTOR, batch_id, expected_version=version)
        deletions.run(database, batch_id)
    assert document(database, report.report_id) == report
    assert FORMATS["html"].write(report, "fr")


def test_a_report_is_read_when_it_is_there(database: Database) -> None:
    _, new = priced(database)
    report_id = ask(database, new)
    with pytest.raises(ConflictError, match="is queued"):
        document(database, report_id)
    with database.write() as connection:
        report_making.fail(connection, report_id, "no reason")
    with pytest.raises(ConflictError, match="has failed: no reason"):
        document(database, report_id)


def test_a_report_is_deleted_at_its_version(database: Database) -> None:
    past, new = priced(database)
    report_id = made(database, new, baseline_batch_id=str(past))
    with pytest.raises(PreconditionFailedError, match="is at version 2, not 1"):
        _delete(database, report_id, 1)
    _delete(database, report_id, 2)
    with pytest.raises(NotFoundError):
        look_at(database, report_id)
    assert [event.action for event in events(database)][-2:] == ["create_report", "delete_report"]


def _delete(database: Database, report_id: UUID, version: int) -> None:
    with database.write() as connection:
        reports.delete(connection, ACTOR, report_id, expected_version=version)


def test_old_reports_are_counted_and_deleted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_retention, "PER_STEP", 2)
    _, new = priced(database)
    ids = [made(database, new) for _ in range(5)]
    kept = ask(database, new)
    now = datetime.now(UTC)
    with database.read() as connection:
        assert report_retention.expired(connection, now, 1).reports == 0
        later = report_retention.expired(connection, now + timedelta(days=2), 1)
        never = report_retention.expired(connection, now + timedelta(days=9), 0)
    assert (later.reports, never.reports, never.oldest_at) == (5, 0, None)
    assert later.bytes > 5 * 1000
    assert later.oldest_at is not None
    assert later.oldest_at <= now
    assert report_retention.delete_expired(database, now + timedelta(days=9), 0) == 0
    assert report_retention.delete_expired(database, now, 1) == 0
    assert report_retention.delete_expired(database, now + timedelta(days=2), 1) == 5
    assert [one.id for one in listed(database)] == [kept]
    assert kept not in ids
    told = [event for event in events(database) if event.action == "prune_reports"]
    assert [(event.detail or "").partition(" ")[0] for event in told] == ["2", "2", "1"]


def test_a_body_is_read_strictly() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"batch_id": str(uuid4()), "pricing": 0}, ReportIn)
