"""A batch of 500 000 points on SQLite: from POST to a sorted page, and its write alone."""

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.cli.http_client import open_client, read, submit_batch, wait_for_batch
from service.db import migrate
from service.db.blocks import BLOCK_POINTS, encode_columns, write_blocks
from service.db.engine import Database
from service.jobs import batches
from service.jobs.actors import Actor
from service.jobs.planning import CHUNK_POINTS
from service.model.axes import decode_axes
from service.model.grid import build_grid
from service.model.inputs import input_columns
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario
from service.settings import Limits
from tests.benchmarks.processes import MEGABYTE, MemoryWatch, trainard

Document = dict[str, Any]
Table = dict[str, NDArray[Any]]

ROUNDS = 2
SCENARIO: Document = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}
CV = "variability.transient.cv"
SPEED = "slow_groups.0.speed_fraction"
GRIDS: dict[str, list[Document]] = {
    "1 000 cv by 500 speeds at N = 1 024": [
        {"path": CV, "logspace": {"start": 0.001, "stop": 0.3, "num": 1000}},
        {"path": SPEED, "logspace": {"start": 0.5, "stop": 0.999, "num": 500}},
    ],
    "10 cv by 50 000 sizes": [
        {"path": CV, "logspace": {"start": 0.001, "stop": 0.3, "num": 10}},
        {"path": "num_gpus", "range": {"start": 8, "stop": 400_000, "step": 8}},
    ],
}
WARM_UP: list[Document] = [{"path": CV, "logspace": {"start": 0.001, "stop": 0.3, "num": 60_000}}]


class Served(NamedTuple):
    """What a caller of the service sees."""

    seconds: float
    peak_bytes: int


def rows() -> list[dict[str, str]]:
    """One row a grid; the tuples are written in the same run, best of the rounds of each."""
    return [_row(name, axes) for name, axes in GRIDS.items()]


def _row(name: str, axes: list[Document]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        served = post_to_queryable(axes, Path(folder))
        tables = computed(axes)
        blocks_s = min(_timed(_write_blocks, tables, axes, folder) for _ in range(ROUNDS))
        tuples_s = min(_timed(_write_tuples, tables, axes, folder) for _ in range(ROUNDS))
    num_points = sum(len(table["item"]) for table in tables)
    peak_mb = served.peak_bytes / MEGABYTE
    return {
        "measure": f"{name}: {num_points:,} points, {len(tables[0])} columns",
        "POST to sorted page": f"{served.seconds:.1f} s, peak {peak_mb:.0f} MB",
        "columns as blocks": f"{blocks_s:.2f} s",
        "columns as tuples (sqlite3.executemany)": f"{tuples_s:.2f} s",
        "write / tuples": f"{blocks_s / tuples_s:.2f} (target 0.5)",
        "whole / tuples": f"{served.seconds / tuples_s:.2f} (target 2.0)",
    }


def batch_of(axes: list[Document], name: str) -> Document:
    """A batch of one item over these axes."""
    return {"name": name, "items": [{"custom_id": "bench", "scenario": SCENARIO, "axes": axes}]}


def post_to_queryable(axes: list[Document], folder: Path) -> Served:
    """Time from sending the batch to having its 50 worst points, on a service that has run one."""
    with (
        trainard(f"sqlite:///{folder}/served.db") as server,
        open_client(server.address) as client,
        MemoryWatch(server.process.pid) as memory,
    ):

        def run(name: str, wanted: list[Document]) -> float:
            start = time.perf_counter()
            batch = submit_batch(client, batch_of(wanted, name), salt=name)
            batch = wait_for_batch(client, batch, lambda _: None)
            url = f"/v1/scenario-batches/{batch['id']}/results"
            page = read(client, url, order_by="-gpu_hours_lost", page_size="50")
            seconds = time.perf_counter() - start
            if batch["state"] != "succeeded" or len(page["items"]) != 50:
                raise RuntimeError(f"unexpected end: {batch}")
            return seconds

        run("warm-up", WARM_UP)
        return Served(run("measured", axes), memory.peak_bytes)


def computed(axes: list[Document]) -> list[Table]:
    """All stored columns of the grid, chunk by chunk, as the compute processes make them."""
    limit = Limits().points_per_batch
    grid = build_grid(decode_scenario(SCENARIO), decode_axes(axes), max_points=limit)
    tables = []
    for start in range(0, grid.num_points, CHUNK_POINTS):
        columns = grid.columns(start, min(start + CHUNK_POINTS, grid.num_points))
        results = evaluate(columns)
        tables.append(
            {
                "item": np.zeros(columns.num_points, dtype=np.int64),
                "failure": results.failure,
                **input_columns(columns),
                **results.columns,
            }
        )
    return tables


def _timed(
    write: Callable[[list[Table], list[Document], Path], float],
    tables: list[Table],
    axes: list[Document],
    folder: str,
) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return write(tables, axes, Path(own))


def _write_blocks(tables: list[Table], axes: list[Document], folder: Path) -> float:
    """The service's own write: a transaction a chunk, packing included."""
    url = f"sqlite:///{folder}/blocks.db"
    migrate.upgrade(url)
    database, actor = Database(url), Actor()
    with database.write() as connection:
        batch = batches.submit(connection, actor, batch_of(axes, "blocks"), Limits())
    start = time.perf_counter()
    for chunk, table in enumerate(tables):
        with database.write() as connection:
            first_block = chunk * (CHUNK_POINTS // BLOCK_POINTS)
            write_blocks(connection, actor.team_id, batch.id, first_block, encode_columns(table))
    seconds = time.perf_counter() - start
    database.close()
    return seconds


def _write_tuples(tables: list[Table], _axes: list[Document], folder: Path) -> float:
    """The driver at its best: WAL, one transaction, one prepared statement, no index."""
    connection = sqlite3.connect(folder / "tuples.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    columns = ", ".join(
        f'"{name}" {"REAL" if values.dtype.kind == "f" else "INTEGER"}'
        for name, values in tables[0].items()
    )
    connection.execute(f"CREATE TABLE point ({columns})")
    insert = f"INSERT INTO point VALUES ({', '.join('?' * len(tables[0]))})"
    start = time.perf_counter()
    connection.execute("BEGIN")
    for table in tables:
        connection.executemany(
            insert, zip(*(values.tolist() for values in table.values()), strict=True)
        )
    connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


if __name__ == "__main__":
    for row in rows():
        print(row)
