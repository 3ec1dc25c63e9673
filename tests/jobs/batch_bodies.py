"""Bodies of batches and short ways to store and read them."""

from typing import Any
from uuid import UUID

from service.db.engine import Database
from service.jobs import batches, results
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut
from service.jobs.result_documents import ResultOut
from service.jobs.result_queries import ResultsQuery
from service.settings import Limits
from tests.jobs.completed import complete

ACTOR = Actor()
LIMITS = Limits()
SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}
SIZES = {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}}


def item(**changes: Any) -> dict[str, Any]:
    return {"custom_id": "one-slow", "scenario": SEED, **changes}


def speeds(num: int) -> dict[str, Any]:
    """An axis of so many points that costs little to compute."""
    return {
        "path": "slow_groups.0.speed_fraction",
        "logspace": {"start": 0.4, "stop": 0.99, "num": num},
    }


def submit(database: Database, *items: dict[str, Any], **changes: Any) -> BatchOut:
    with database.write() as connection:
        return batches.submit(
            connection, ACTOR, {"name": "test", "items": list(items), **changes}, LIMITS
        )


def run(database: Database, *items: dict[str, Any], **changes: Any) -> BatchOut:
    batch = submit(database, *items, **changes)
    complete(database)
    return read(database, batch.id)


def read(database: Database, batch_id: UUID) -> BatchOut:
    with database.read() as connection:
        return batches.get(connection, ACTOR, batch_id)


def cancel(database: Database, batch_id: UUID) -> BatchOut:
    with database.write() as connection:
        return batches.cancel(connection, ACTOR, batch_id)


def rows(database: Database, **query: Any) -> list[ResultOut]:
    with database.read() as connection:
        page = results.list_page(connection, ACTOR, ResultsQuery(**query))
    return page.items
