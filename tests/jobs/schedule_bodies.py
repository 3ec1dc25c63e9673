"""Bodies of schedules and short ways to make and read them."""

from datetime import UTC, datetime
from typing import Any

from service.db.engine import Database, Row
from service.jobs import schedule_changes, schedules
from service.jobs.actors import Actor
from service.jobs.schedules import ScheduleOut
from service.jobs.scopes import SCOPES
from service.settings import Settings
from tests.jobs.batch_bodies import item

ACTOR = Actor(name="sre")
# Plans, but sees no money
PLANNER = Actor(
    name="planner",
    principal="key:planner",
    role="planner",
    scopes=frozenset(scope for scope in SCOPES if not scope.startswith("costs:")),
)
SETTINGS = Settings()
# A Friday, two days before Paris puts its clocks forward
NOW = datetime(2027, 3, 26, 12, tzinfo=UTC)


def body(slug: str = "nightly", **changes: Any) -> dict[str, Any]:
    return {
        "slug": slug,
        "name": "Nightly what-if",
        "cron": "30 2 * * *",
        "zone": "Europe/Paris",
        "batch": {"items": [item()], "currency": "EUR"},
        **changes,
    }


def money(amount: str = "1000.00", currency: str = "EUR") -> dict[str, Any]:
    return {"cost_of_loss_per_30_days": {"amount": amount, "currency": currency}}


def create(
    database: Database,
    document: Any,
    *,
    actor: Actor = ACTOR,
    settings: Settings = SETTINGS,
    now: datetime = NOW,
) -> ScheduleOut:
    with database.write() as connection:
        return schedule_changes.create_schedule(connection, actor, document, settings, now=now)


def change(
    database: Database,
    sent: Any,
    *,
    key: str = "nightly",
    version: int | None = None,
    actor: Actor = ACTOR,
    settings: Settings = SETTINGS,
    now: datetime = NOW,
) -> ScheduleOut:
    with database.write() as connection:
        if version is None:
            version = schedules.require(connection, actor, key).version
        return schedule_changes.change_schedule(
            connection, actor, key, sent, settings, version=version, now=now
        )


def read(database: Database, key: str = "nightly", actor: Actor = ACTOR) -> ScheduleOut:
    with database.read() as connection:
        return schedules.read_schedule(connection, actor, key)


def row(database: Database, key: str = "nightly") -> Row[Any]:
    with database.read() as connection:
        return schedules.require(connection, ACTOR, key)
