"""A month of nightly runs of a large batch, made in one go by a backfill with the real engine."""

import time
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec

from service.db import schedules
from service.db.engine import Database
from service.jobs import backfills
from service.jobs.actors import DEFAULT_TEAM_ID, Actor
from service.jobs.backfill_documents import BackfillIn, BackfillOut
from service.jobs.runtime import Runtime
from service.jobs.schedule_documents import ScheduleIn
from service.settings import Limits, Settings

NUM_ITEMS = 200
FIRST_ON, LAST_ON = date(2026, 10, 1), date(2026, 10, 30)
WITHIN_S = 1_800
SLUG = "month"
SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}


def large_items(number: int = NUM_ITEMS) -> list[dict[str, Any]]:
    """Scenarios that are all different, each of one point."""
    return [
        {
            "custom_id": f"scenario-{position}",
            "scenario": {**SEED, "compute_ms": 300 + position},
        }
        for position in range(number)
    ]


def add_schedule(database: Database, items: list[dict[str, Any]], **changes: Any) -> UUID:
    """A nightly schedule over the items whose slots are all in the past."""
    document = {
        "slug": SLUG,
        "name": "A month of nights",
        "cron": "30 2 * * *",
        "zone": "Europe/Paris",
        "batch": {"items": items, "currency": "EUR", "reuse": False},
        "report": {"remedies": False},
        **changes,
    }
    definition = msgspec.to_builtins(msgspec.convert(document, ScheduleIn))
    own = {name: definition.pop(name) for name in ("slug", "name", "cron", "zone")}
    del definition["paused"]
    with database.write() as connection:
        return schedules.insert_schedule(
            connection,
            DEFAULT_TEAM_ID,
            {**own, "definition": definition, "next_at": None, "created_by": "bench"},
        )


def fill(
    database: Database, *, first_on: date = FIRST_ON, last_on: date = LAST_ON, max_running: int = 4
) -> tuple[BackfillOut, float]:
    """Run the slots of the days with the engine of this process; how it ended, and the seconds.

    On PostgreSQL the process computes as a worker does.
    """
    runtime = Runtime(
        database, role="embedded" if database.is_sqlite else "worker", settings=Settings()
    )
    runtime.start()
    try:
        begin = time.perf_counter()
        body = BackfillIn(first_on=first_on, last_on=last_on, max_running=max_running)
        with database.write() as connection:
            made = backfills.create(
                connection, Actor(), SLUG, body, limits=Limits(), now=datetime.now(UTC)
            )
        runtime.wake()
        while True:
            with database.read() as connection:
                found = backfills.get(connection, Actor(), SLUG, made.id)
            taken_s = time.perf_counter() - begin
            if found.state != "running":
                return found, taken_s
            if taken_s > WITHIN_S:
                raise TimeoutError(f"after {WITHIN_S} s the backfill is at {found.runs}")
            time.sleep(0.05)
    finally:
        runtime.stop()
