"""Schedules whose slots have batches, written into the ledger as the scheduler would."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from sqlalchemy import insert, update

from service.db.engine import Database
from service.db.schedule_tables import schedule, schedule_run
from service.db.tables import scenario_batch
from service.jobs import batches
from service.jobs.actors import Actor
from service.settings import Limits
from tests.jobs.completed import complete

ACTOR = Actor()
ZONE = "Europe/Paris"


def a_schedule(database: Database, slug: str = "nightly") -> UUID:
    """A schedule that never comes by itself."""
    schedule_id = uuid4()
    with database.write() as connection:
        connection.execute(
            insert(schedule).values(
                id=schedule_id,
                team_id=ACTOR.team_id,
                created_by="test",
                slug=slug,
                name=slug,
                cron="30 2 * * *",
                zone=ZONE,
                definition={},
                unique_slug=slug,
            )
        )
    return schedule_id


def a_batch(database: Database, items: list[dict[str, Any]], **values: Any) -> UUID:
    """A computed batch; `ended_at` moves its end and what it was priced with."""
    document = {
        "name": "night",
        "start_on": "2026-12-01",
        "reuse": False,
        "items": [{"custom_id": f"i{place}", **item} for place, item in enumerate(items)],
        **values,
    }
    with database.write() as connection:
        batch = batches.submit(connection, ACTOR, document, Limits())
    complete(database)
    return batch.id


def ended(database: Database, batch_id: UUID, moment: datetime) -> None:
    """Move the end of a batch."""
    with database.write() as connection:
        c = scenario_batch.c
        connection.execute(update(scenario_batch).where(c.id == batch_id).values(ended_at=moment))


def a_run(
    database: Database,
    schedule_id: UUID,
    slot: str,
    batch_id: UUID | None,
    *,
    state: str = "succeeded",
    **values: Any,
) -> UUID:
    """The run of a slot given as wall time in the zone, known since then."""
    local = datetime.fromisoformat(slot).replace(tzinfo=ZoneInfo(ZONE))
    run_id = uuid4()
    with database.write() as connection:
        connection.execute(
            insert(schedule_run).values(
                id=run_id,
                team_id=ACTOR.team_id,
                created_by="test",
                schedule_id=schedule_id,
                scheduled_for=local.astimezone(UTC),
                local_time=local.isoformat(),
                zone=ZONE,
                kind="scheduled",
                state=state,
                start_on=local.date() + timedelta(days=1),
                batch_id=batch_id,
                **{
                    "created_at": local.astimezone(UTC),
                    "earlier_batches": [],
                    "tzdata_version": "2026a",
                    "warnings": [],
                    **values,
                },
            )
        )
    return run_id
