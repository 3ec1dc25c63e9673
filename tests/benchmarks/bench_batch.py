"""Batches as column blocks, and from POST to their end, against a raw row load of the same columns.

The baseline is raw_rows.py: tuned `sqlite3.executemany`, and binary COPY from NumPy. Both sides of
a ratio are on the same database, taken in turn; the best of the rounds of each.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from service.cli.http_client import open_client
from service.db import migrate
from service.db.blocks import write_blocks
from service.db.encoded_blocks import BLOCK_POINTS, encode_columns
from service.db.engine import Database
from service.jobs import batches
from service.jobs.actors import Actor
from service.jobs.chunks import CHUNK_POINTS
from service.settings import Limits
from tests.benchmarks.batch_calls import WORST_FIRST, read_page, run_batch, warm_up
from tests.benchmarks.batch_tables import GRIDS, Document, Table, batch_of, computed
from tests.benchmarks.own_databases import Backend, backends
from tests.benchmarks.processes import MEGABYTE, MemoryWatch, Server, alone, started_by, trainard
from tests.benchmarks.raw_rows import load_rows

Row = dict[str, str]

ROUNDS = 2
WRITE_TARGETS = {"SQLite": 0.25, "PostgreSQL": 0.45}
WHOLE_TARGET = 1.0
MEMORY_TARGET_MB = 400


class Served(NamedTuple):
    """The best of the rounds, and the memory of each part of the service.

    Seconds from POST until the batch has succeeded, and until its 50 worst points are there.
    """

    ended_s: float
    page_s: float
    peaks: dict[str, int]


def rows() -> list[Row]:
    """For each grid and database the write, the whole batch and the memory."""
    measured = []
    with backends() as found:
        for name, axes in GRIDS.items():
            tables = computed(axes)
            for backend in found:
                measured += _rows(backend, name, axes, tables)
    return measured


def _rows(backend: Backend, name: str, axes: list[Document], tables: list[Table]) -> list[Row]:
    raw_s, blocks_s = [], []
    for _ in range(ROUNDS):
        backend.settle()
        raw_s.append(load_rows(backend.new(), tables))
        backend.settle()
        blocks_s.append(_write_blocks(backend.new(), tables, axes))
    backend.settle()
    served = _serve(backend, axes)
    num_points = sum(len(table["item"]) for table in tables)
    of_grid = f"{name}: {num_points:,} points, {len(tables[0])} columns"
    return [
        _row(
            f"write alone, {of_grid}",
            backend,
            f"{min(blocks_s):.2f} s",
            f"{min(raw_s):.2f} s",
            ratio=min(blocks_s) / min(raw_s),
            target=f"at most {WRITE_TARGETS[backend.name]}",
        ),
        _row(
            f"from POST to succeeded, {name}",
            backend,
            f"{served.ended_s:.2f} s; {served.page_s:.2f} s to a sorted page",
            f"{min(raw_s):.2f} s",
            ratio=served.ended_s / min(raw_s),
            target=f"at most {WHOLE_TARGET}",
        ),
        _row(
            f"peak memory meanwhile, {name}",
            backend,
            ", ".join(f"{part} {used / MEGABYTE:.0f} MB" for part, used in served.peaks.items()),
            target=f"under {MEMORY_TARGET_MB} MB each",
        ),
    ]


def _row(
    measure: str,
    backend: Backend,
    found: str,
    baseline: str = "",
    *,
    ratio: float | None = None,
    target: str,
) -> Row:
    return {
        "measure": measure,
        "database": backend.name,
        "Trainard": found,
        "raw row load": baseline,
        "ratio": "" if ratio is None else f"{ratio:.2f}",
        "target": target,
    }


def _write_blocks(url: str, tables: list[Table], axes: list[Document]) -> float:
    """Seconds of the service's own write: a transaction a chunk, packing included."""
    migrate.upgrade(url)
    database, actor = Database(url), Actor()
    with database.write() as connection:
        batch = batches.submit(connection, actor, batch_of(axes, "blocks"), Limits())
    start = time.perf_counter()
    for chunk, table in enumerate(tables):
        encoded = encode_columns(table)
        with database.write() as connection:
            first_block = chunk * (CHUNK_POINTS // BLOCK_POINTS)
            write_blocks(connection, actor.team_id, batch.id, first_block, encoded)
    seconds = time.perf_counter() - start
    database.close()
    return seconds


def _serve(backend: Backend, axes: list[Document]) -> Served:
    """Timed rounds on a warm service, then one more in which its memory is watched."""
    with trainard(backend.new()) as server, open_client(server.address) as client:
        warm_up(client)
        rounds = []
        for number in range(ROUNDS):
            run = run_batch(client, axes, f"round {number}")
            page_s = read_page(client, run.url, order_by=WORST_FIRST)
            rounds.append((run.seconds, run.seconds + page_s))
        ended_s, page_s = min(rounds)
        peaks = _watched(server, backend, lambda: run_batch(client, axes, "watched"))
        return Served(ended_s, page_s, peaks)


def _watched(server: Server, backend: Backend, act: Callable[[], object]) -> dict[str, int]:
    """Peak bytes of each part of the service while it acts."""
    process_id = server.process.pid
    if backend.name == "SQLite":
        parts = {"service with its compute processes": MemoryWatch(process_id)}
    else:
        parts = {
            "API": MemoryWatch(process_id, alone),
            "worker with its compute processes": MemoryWatch(process_id, started_by),
        }
    with ExitStack() as stack:
        for watch in parts.values():
            stack.enter_context(watch)
        act()
    return {part: watch.peak_bytes for part, watch in parts.items()}


if __name__ == "__main__":
    for row in rows():
        print(row)
