"""Batches to report on, and reports of them made in this process."""

from datetime import date
from typing import Any
from uuid import UUID

import msgspec

from service.db.engine import Database
from service.jobs import report_making, reports
from service.jobs.actors import Actor
from service.jobs.profile_changes import create_profile
from service.jobs.profile_documents import ProfileIn
from service.jobs.rate_documents import RateIn
from service.jobs.rates import create_rate
from service.jobs.report_documents import ReportDetail, ReportIn, ReportOut
from service.jobs.scopes import SCOPES
from service.reports.loss_report import LossReport
from service.reports.money import Money
from tests.jobs.batch_bodies import ACTOR, SEED
from tests.jobs.export_bodies import run

# Reads reports, but sees no money
VIEWER = Actor(
    name="viewer",
    principal="key:viewer",
    role="viewer",
    scopes=frozenset(scope for scope in SCOPES if not scope.startswith("costs:")),
)
SLOW: dict[str, Any] = {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
EVEN: dict[str, Any] = {"slow_groups": []}
NO_REMEDIES: dict[str, Any] = {"remedies": False}


def a_rate(
    database: Database,
    amount: str,
    first: str,
    until: str | None = None,
    center: str | None = None,
    *,
    currency: str = "EUR",
) -> str:
    with database.write() as connection:
        rate = RateIn(
            gpu_type="H100",
            cost_center=center,
            price_per_gpu_hour=Money(amount=amount, currency=currency),
            valid_from=date.fromisoformat(first),
            valid_until=None if until is None else date.fromisoformat(until),
            source="example",
        )
        return str(create_rate(connection, ACTOR, rate).id)


def a_profile(database: Database, slug: str = "prod", **defaults: Any) -> None:
    with database.write() as connection:
        document = ProfileIn(
            slug=slug,
            name=slug,
            gpu_type="H100",
            cost_center="research",
            defaults=SEED | EVEN | defaults,
        )
        create_profile(connection, ACTOR, document)


def one(custom_id: str, **overrides: Any) -> dict[str, Any]:
    """An item of the profile."""
    return {"custom_id": custom_id, "profile": "prod", "overrides": overrides}


def batch(database: Database, *items: dict[str, Any], **changes: Any) -> UUID:
    """An ended batch that is priced in EUR."""
    given = {"start_on": "2026-12-01", "currency": "EUR", "reuse": False} | changes
    return run(database, *items, **given).id


def ask(database: Database, batch_id: UUID, *, actor: Actor = ACTOR, **changes: Any) -> UUID:
    """Have a report made, without remedies unless it says so; its id."""
    body = {"batch_id": str(batch_id), "report": NO_REMEDIES} | changes
    with database.write() as connection:
        return reports.create(connection, actor, msgspec.convert(body, ReportIn)).id


def make(database: Database, batch_id: UUID, **changes: Any) -> LossReport:
    """The whole document of a report that is asked for and made."""
    report_id = ask(database, batch_id, **changes)
    report_making.run(database, report_id)
    return document(database, report_id)


def document(database: Database, report_id: UUID, actor: Actor = ACTOR) -> LossReport:
    with database.read() as connection:
        return reports.read_document(connection, actor, report_id)


def look_at(database: Database, report_id: UUID, actor: Actor = ACTOR) -> ReportDetail:
    with database.read() as connection:
        return reports.get(connection, actor, report_id)


def listed(database: Database, actor: Actor = ACTOR, **chosen: Any) -> list[ReportOut]:
    with database.read() as connection:
        choice = reports.ReportChoice(**chosen)
        page = reports.list_page(connection, actor, choice, page_size=50, page_token=None)
    return page.items
