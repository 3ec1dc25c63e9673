"""Schedules for tests of what becomes of their slots, and short ways to look at the ledger."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from service.db import schedule_runs, schedules
from service.db.engine import Database, Row
from service.db.schedule_runs import RunFilter
from service.jobs.actors import DEFAULT_TEAM_ID
from service.jobs.occurrences import slots_after
from service.jobs.run_handover import hand_over
from service.jobs.run_starts import start_due
from service.jobs.schedule_documents import ScheduleIn
from service.settings import Limits
from tests.jobs.batch_bodies import item

LIMITS = Limits()


def add_schedule(database: Database, begun_at: datetime, **changes: Any) -> UUID:
    """Store a schedule that was made at that moment; nightly at 02:30 in Paris by default."""
    batch = {"items": [item()], **changes.pop("batch", {})}
    document = {
        "slug": "nightly",
        "name": "Nightly",
        "cron": "30 2 * * *",
        "zone": "Europe/Paris",
        "batch": batch,
        **changes,
    }
    definition = msgspec.to_builtins(msgspec.convert(document, ScheduleIn))
    own = {name: definition.pop(name) for name in ("slug", "name", "cron", "zone")}
    is_paused = definition.pop("paused")
    first = next(slots_after(own["cron"], own["zone"], begun_at))
    with database.write() as connection:
        return schedules.insert_schedule(
            connection,
            DEFAULT_TEAM_ID,
            {
                **own,
                "definition": definition,
                "next_at": None if is_paused else first.at,
                "paused_at": begun_at if is_paused else None,
                "created_by": "test",
            },
        )


def change(database: Database, schedule_id: UUID, **values: Any) -> None:
    """Change columns of the schedule, whatever its version."""
    with database.write() as connection:
        row = schedules.get_schedule(connection, DEFAULT_TEAM_ID, schedule_id)
        assert row is not None
        assert schedules.change_schedule(
            connection, schedule_id, version=row.version, values=values
        )


def ledger(database: Database, schedule_id: UUID, **wanted: Any) -> list[Row[Any]]:
    """The runs of the schedule, the oldest slot first."""
    with database.read() as connection:
        found = schedule_runs.list_runs(connection, schedule_id, RunFilter(**wanted), limit=10_000)
    return found[::-1]


def states(database: Database, schedule_id: UUID) -> list[tuple[str, str]]:
    """(local time, state) of the runs, the oldest slot first."""
    return [(row.local_time, row.state) for row in ledger(database, schedule_id)]


def settle(database: Database, now: datetime, limits: Limits = LIMITS) -> int:
    """Begin and hand over what can be, until nothing can; how many changes that made."""
    total = 0
    while changed := start_due(database, limits, now) + hand_over(database, now):
        total += changed
    return total
