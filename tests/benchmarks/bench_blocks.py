"""Points a block: what writing, filtering, sorting and single points cost at five sizes.

1 000 000 points from the model. A page is 50 rows, filtered and sorted, with all columns fetched.
Pruned: the filter is on the outer axis, so zone maps leave few blocks; unpruned: it is on the inner
axis, which runs through every block. The first call of each is not counted.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import uuid_utils.compat
from sqlalchemy import func, insert, select

from service.db import blocks, candidates, encoded_blocks, migrate, results
from service.db.blocks import write_blocks
from service.db.encoded_blocks import encode_columns
from service.db.engine import Database
from service.db.results import BatchRef, Filter, Order, fetch_points, scan
from service.db.tables import result_block, scenario_batch
from service.jobs.actors import Actor
from service.jobs.chunks import CHUNK_POINTS
from service.model import MODEL_VERSION
from service.model.results import COLUMN_NAMES
from tests.benchmarks.batch_tables import CV, SPEED, Document, Table, computed
from tests.conftest import running_server

SIZES = (2_500, 5_000, 10_000, 25_000, 50_000)
AXES: list[Document] = [
    {"path": CV, "logspace": {"start": 0.001, "stop": 0.3, "num": 1000}},
    {"path": SPEED, "logspace": {"start": 0.5, "stop": 0.999, "num": 1000}},
]
PAGES = 25
ROWS = 50
SINGLE_POINTS = 100
ORDER = [Order(column="gpu_hours_lost", descending=True)]


def rows() -> list[dict[str, str]]:
    """One row a database and size; all sizes hold the same points."""
    tables = computed(AXES)
    measured = []
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        for size in SIZES:
            with cut_at(size):
                path = Path(folder) / f"{size}.db"
                measured.append(_row("SQLite", f"sqlite:///{path}", size, tables))
                path.unlink()
                name = server.new_database()
                measured.append(_row("PostgreSQL", server.url(name), size, tables))
                server.drop_database(name)
    return sorted(measured, key=lambda row: row["database"], reverse=True)


@contextmanager
def cut_at(num_points: int) -> Iterator[None]:
    """Cut blocks of so many points, in every module that knows the number."""
    modules = (blocks, encoded_blocks, candidates, results)
    before = encoded_blocks.BLOCK_POINTS
    for module in modules:
        setattr(module, "BLOCK_POINTS", num_points)  # noqa: B010 - mypy takes it for a constant
    try:
        yield
    finally:
        for module in modules:
            setattr(module, "BLOCK_POINTS", before)  # noqa: B010 - as above


def _row(kind: str, url: str, size: int, tables: list[Table]) -> dict[str, str]:
    migrate.upgrade(url)
    database = Database(url)
    num_points = sum(len(table["item"]) for table in tables)
    batch_id = _new_batch(database, num_points)
    pack_s, write_s = _write(database, batch_id, size, tables)
    num_rows, num_bytes = _stored(database)
    random = np.random.default_rng(1)
    bounds = random.uniform(0.001, 0.28, PAGES + 1)
    pruned = _timed(
        lambda number: _page(database, batch_id, CV, float(bounds[number]), width=1.02), PAGES
    )
    speeds = random.uniform(0.5, 0.97, PAGES + 1)
    unpruned = _timed(
        lambda number: _page(database, batch_id, SPEED, float(speeds[number]), width=1.02), PAGES
    )
    points = random.integers(0, num_points, SINGLE_POINTS + 1)
    names = tuple(tables[0])
    single = _timed(
        lambda number: _fetch(database, batch_id, points[number : number + 1], names),
        SINGLE_POINTS,
    )
    database.close()
    return {
        "database": kind,
        "points a block": f"{size:,}",
        "packing": f"{pack_s:.2f} s",
        "writing": f"{write_s:.2f} s",
        "packed": f"{num_bytes / 1e6:.1f} MB in {num_rows:,} rows",
        "page, pruned (p50, p95)": _shown(pruned),
        "page, unpruned (p50, p95)": _shown(unpruned),
        "one point (p50, p95)": _shown(single),
    }


def _new_batch(database: Database, num_points: int) -> UUID:
    """A batch row without items: blocks refer to it."""
    actor, now = Actor(), datetime.now(UTC)
    batch_id = uuid_utils.compat.uuid7()
    batch: dict[str, Any] = {
        "id": batch_id,
        "team_id": actor.team_id,
        "created_by": actor.name,
        "name": "blocks",
        "state": "succeeded",
        "start_on": date(2026, 12, 1),
        "metadata": {},
        "items_total": 0,
        "points_total": num_points,
        "columns": [],
        "input_digest": "sha256:0",
        "model_version": MODEL_VERSION,
        "warnings": [],
        "queued_at": now,
    }
    with database.write() as connection:
        connection.execute(insert(scenario_batch).values(**batch))
    return batch_id


def _write(
    database: Database, batch_id: UUID, size: int, tables: list[Table]
) -> tuple[float, float]:
    """Seconds of packing, which compute processes do, and of the transactions, one a chunk."""
    pack_s = write_s = 0.0
    team_id = Actor().team_id
    for chunk, table in enumerate(tables):
        start = time.perf_counter()
        encoded = encode_columns(table)
        packed = time.perf_counter()
        with database.write() as connection:
            write_blocks(connection, team_id, batch_id, chunk * (CHUNK_POINTS // size), encoded)
        pack_s += packed - start
        write_s += time.perf_counter() - packed
    return pack_s, write_s


def _stored(database: Database) -> tuple[int, int]:
    with database.read() as connection:
        found = connection.execute(
            select(func.count(), func.sum(func.length(result_block.c.data)))
        ).one()
    return int(found[0]), int(found[1])


def _page(database: Database, batch_id: UUID, column: str, low: float, *, width: float) -> None:
    filters = [
        Filter(column=column, operator="ge", value=low),
        Filter(column=column, operator="lt", value=low * width),
    ]
    with database.read() as connection:
        found = scan(connection, [BatchRef(batch_id=batch_id)], filters, ORDER, limit=ROWS + 1)
        points = np.array([row.point for row in found[:ROWS]], dtype=np.int64)
        if len(points) != ROWS:
            raise RuntimeError(f"{len(points)} rows between {low} and {low * width} of {column}")
        fetch_points(connection, batch_id, points, ("failure", *COLUMN_NAMES))


def _fetch(database: Database, batch_id: UUID, points: Any, names: tuple[str, ...]) -> None:
    with database.read() as connection:
        fetch_points(connection, batch_id, points, names)


def _timed(act: Callable[[int], None], repeats: int) -> list[float]:
    """Seconds of each call but the first."""
    seconds = []
    for number in range(repeats + 1):
        start = time.perf_counter()
        act(number)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def _shown(seconds: list[float]) -> str:
    p95 = statistics.quantiles(seconds, n=20)[-1]
    return f"{statistics.median(seconds) * 1e3:.1f}, {p95 * 1e3:.1f} ms"


if __name__ == "__main__":
    for row in rows():
        print(row)
