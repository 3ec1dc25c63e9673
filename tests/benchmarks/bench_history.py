"""A month of nightly runs of a 200-item batch, made by one backfill: time, size, history.

Each night has another revision of the profile, so that nothing is taken over from the night before.
What is asked of the month is set against computing the same nights again.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import select, text, update

from service.db import batches as rows_of_batches
from service.db import migrate
from service.db.engine import Connection, Database
from service.db.schedule_tables import schedule_run
from service.db.tables import cluster_profile_revision
from service.jobs import batches, comparisons
from service.jobs.actors import Actor
from service.jobs.comparisons import ComparisonQuery
from service.jobs.history_documents import HistoryQuery
from service.jobs.loss_histories import history
from service.jobs.profile_changes import create_profile, revise_profile
from service.jobs.profile_documents import ProfileIn, RevisionIn
from service.jobs.profiles import read_profile
from service.jobs.rate_documents import RateIn
from service.jobs.rates import create_rate
from service.jobs.runtime import Runtime
from service.reports.money import Money
from service.settings import Limits, Settings
from tests.benchmarks.month_of_nights import FIRST_ON, LAST_ON, SLUG, add_schedule, fill
from tests.benchmarks.own_databases import Backend, backends

Row = dict[str, str]

NUM_ITEMS = 200
REPEATS = 9
AGAIN_WITHIN_S = 600
TARGET = "under 1/100"
MEGABYTE = 1_000_000
NOW = datetime(2026, 10, 31, tzinfo=UTC)
# Ranks and nodes that differ for good and steps that vary: such clusters are drawn.
VARIABILITY: dict[str, Any] = {
    "transient": {"kind": "lognormal", "cv": 0.05},
    "persistent": {"kind": "normal", "cv": 0.01},
    "node": {"kind": "normal", "cv": 0.01},
}


def rows() -> list[Row]:
    """What each database measures."""
    with backends() as found:
        return [row for backend in found for row in _rows(backend)]


def _rows(backend: Backend) -> list[Row]:
    url = backend.new()
    migrate.upgrade(url)
    database = Database(url)
    try:
        return _measured(backend, database)
    finally:
        database.close()


def _measured(backend: Backend, database: Database) -> list[Row]:
    nights = (LAST_ON - FIRST_ON).days + 1
    _revisions(database, nights)
    before = _bytes(database)
    add_schedule(database, _items(), profiles_as_of="slot")
    made, taken_s = fill(database)
    if made.runs.succeeded != nights:
        raise RuntimeError(f"of {nights} nights these have succeeded: {made.runs}")
    backend.settle()
    size = _bytes(database) - before
    first, last = _runs(database)
    again_s = _compute_again(database, [first, last])
    found = [
        _row(backend, f"{nights} nights of {NUM_ITEMS} items, with reports", f"{taken_s:.1f} s"),
        _row(backend, "size of them on disk", f"{size / MEGABYTE:.1f} MB"),
    ]
    one = {"schedule": SLUG, "scenario": "scenario 7", "window": "31d"}
    total = {"schedule": SLUG, "group_by": "team", "window": "31d"}
    compared = ComparisonQuery(
        baseline=first, candidate=last, order_by="-difference.gpu_hours_lost"
    )
    # Beside each question how many items would be computed again for its answer.
    asked: list[tuple[str, int, Callable[[Connection], Any]]] = [
        (f"one scenario over {nights} nights", nights, lambda c: _history(c, one)),
        (
            f"total of the team over {nights} nights",
            nights * NUM_ITEMS,
            lambda c: _history(c, total),
        ),
        (
            f"comparison of the last night with the first, {NUM_ITEMS} items",
            2 * NUM_ITEMS,
            lambda c: comparisons.compare(c, Actor(), compared, page_size=50),
        ),
    ]
    for measure, num_items, ask in asked:
        seconds = _seconds(database, ask)
        computed_s = again_s * num_items / (2 * NUM_ITEMS)
        found.append(
            _row(
                backend,
                measure,
                f"{seconds * 1000:.1f} ms",
                f"computed again: {computed_s:.1f} s",
                ratio=seconds / computed_s,
            )
        )
    return found


def _row(
    backend: Backend, measure: str, found: str, baseline: str = "", *, ratio: float | None = None
) -> Row:
    return {
        "measure": measure,
        "database": backend.name,
        "Trainard": found,
        "baseline": baseline,
        "ratio": "" if ratio is None else f"1/{1 / ratio:.0f}",
        "target": "reported" if ratio is None else TARGET,
    }


def _history(connection: Connection, query: dict[str, Any]) -> Any:
    return history(connection, Actor(), HistoryQuery(**query), NOW)


def _seconds(database: Database, ask: Callable[[Connection], Any]) -> float:
    """Median of the time from the question to the bytes of the answer."""
    taken = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        with database.read() as connection:
            msgspec.json.encode(ask(connection))
        taken.append(time.perf_counter() - start)
    # The first one finds nothing prepared.
    return statistics.median(taken[1:])


def _items() -> list[dict[str, Any]]:
    return [
        {
            "custom_id": f"s{place}",
            "name": f"scenario {place}",
            "profile": "fleet",
            "overrides": {"num_gpus": 512 + 8 * place},
        }
        for place in range(NUM_ITEMS)
    ]


def _revisions(database: Database, nights: int) -> None:
    """A profile that was revised on every evening, and a rate that prices it."""
    for night in range(nights):
        content: dict[str, Any] = {
            "name": "Fleet",
            "gpu_type": "H100",
            "defaults": {
                "num_gpus": 1024,
                "compute_ms": 300 + night,
                "communication": {"kind": "fixed", "allreduce_ms": 80},
                "variability": VARIABILITY,
            },
        }
        with database.write() as connection:
            if night == 0:
                create_profile(connection, Actor(), ProfileIn(slug="fleet", **content))
            else:
                version = read_profile(connection, Actor(), "fleet").version
                revision = RevisionIn(**content)
                revise_profile(connection, Actor(), "fleet", revision, version=version)
    evening = datetime(FIRST_ON.year, FIRST_ON.month, FIRST_ON.day, 18, tzinfo=UTC)
    with database.write() as connection:
        c = cluster_profile_revision.c
        for night in range(nights):
            moment = evening + timedelta(days=night - 1)
            connection.execute(
                update(cluster_profile_revision)
                .where(c.revision == night + 1)
                .values(created_at=moment)
            )
        rate = RateIn(
            gpu_type="H100",
            price_per_gpu_hour=Money(amount="1.00", currency="EUR"),
            valid_from=date(2026, 1, 1),
            source="an example amount",
        )
        create_rate(connection, Actor(), rate)


def _runs(database: Database) -> tuple[UUID, UUID]:
    """The batches of the first and of the last night."""
    with database.read() as connection:
        found = list(
            connection.scalars(
                select(schedule_run.c.batch_id).order_by(schedule_run.c.scheduled_for)
            )
        )
    return found[0], found[-1]


def _compute_again(database: Database, batch_ids: Sequence[UUID]) -> float:
    """Seconds from submitting what the batches computed until it is computed again."""
    runtime = Runtime(
        database, role="embedded" if database.is_sqlite else "worker", settings=Settings()
    )
    bodies = [_body(database, batch_id) for batch_id in batch_ids]
    runtime.start()
    try:
        # The first one starts the processes.
        _run(database, runtime, [bodies[0]])
        start = time.perf_counter()
        _run(database, runtime, bodies)
        return time.perf_counter() - start
    finally:
        runtime.stop()


def _run(database: Database, runtime: Runtime, bodies: Sequence[dict[str, Any]]) -> None:
    begin = time.perf_counter()
    with database.write() as connection:
        made = [batches.submit(connection, Actor(), body, Limits()).id for body in bodies]
    runtime.wake()
    while True:
        with database.read() as connection:
            states = {batches.get(connection, Actor(), batch_id).state for batch_id in made}
        if states == {"succeeded"}:
            return
        if time.perf_counter() - begin > AGAIN_WITHIN_S or "failed" in states:
            raise RuntimeError(f"computing again ended {states}")
        time.sleep(0.02)


def _body(database: Database, batch_id: UUID) -> dict[str, Any]:
    with database.read() as connection:
        stored = rows_of_batches.list_items(connection, [batch_id])
    return {
        "name": "again",
        "start_on": str(stored[0].start_on),
        "reuse": False,
        "items": [
            {**item, "profile": f"fleet@{row.profile_revision}"}
            for item, row in zip(_items(), stored, strict=True)
        ],
    }


def _bytes(database: Database) -> int:
    """On disk; of SQLite with what is still in its log."""
    if not database.is_sqlite:
        with database.read() as connection:
            return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)
    path = Path(str(database.url.database))
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
