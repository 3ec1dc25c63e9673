"""Reading a large batch over HTTP: sorted pages, comparison, exports, and liveness meanwhile.

The baseline of the pages is the same filter and order by SQL on the same points as plain rows
without an index (raw_rows.py), that of an export the writer of pyarrow on arrays in memory.
"""

import itertools
import statistics
import time
from collections.abc import Sequence
from urllib.parse import urlencode

import httpx

from service.cli.http_client import open_client, read
from tests.benchmarks import raw_rows
from tests.benchmarks.arrow_files import write_file
from tests.benchmarks.batch_calls import ROWS, BatchRun, read_page, run_batch, warm_up
from tests.benchmarks.batch_tables import (
    CV,
    DIFFERENT_POINTS,
    POINTS,
    SCENARIO,
    SPEED,
    Table,
    computed,
)
from tests.benchmarks.health_watch import HealthWatch, Latency
from tests.benchmarks.own_databases import Backend, backends
from tests.benchmarks.processes import MEGABYTE, MemoryWatch, Server, alone, trainard

Row = dict[str, str]

WHERE = (
    (CV, "ge", 0.01),
    (CV, "lt", 0.002),
    (CV, "ge", 0.25),
    (CV, "le", 0.1),
    (SPEED, "lt", 0.6),
    (SPEED, "ge", 0.95),
    (SPEED, "le", 0.8),
    ("efficiency_fraction", "gt", 0.7),
    ("efficiency_fraction", "le", 0.6),
    ("step_p99_ms", "ge", 700.0),
)
ORDERS = ("-gpu_hours_lost", "step_mean_ms", "-efficiency_fraction", "step_p99_ms")
PAIRS = tuple(itertools.product(WHERE, ORDERS))
# A page of plain rows takes so long that not every pair is asked for: it shares no factor with 4.
RAW_EVERY = 5
SQL_OPERATORS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
FORMATS = ("csv", "jsonl", "parquet", "arrow")
REPAIRED = {**SCENARIO, "communication": {"kind": "fixed", "allreduce_ms": 60}}
UNCOMPRESSED = {"Accept-Encoding": "identity"}
IDLE_S = 2.0
HEALTH_TARGET = "p99 under 50 ms"
MEMORY_TARGET = "process under 400 MB"


def rows() -> list[Row]:
    """What each database measures."""
    tables = computed(DIFFERENT_POINTS)
    with backends() as found:
        return [row for backend in found for row in _rows(backend, tables)]


def _rows(backend: Backend, tables: list[Table]) -> list[Row]:
    url = backend.new()
    with trainard(url) as server, open_client(server.address) as client:
        warm_up(client)
        with HealthWatch(server) as idle:
            time.sleep(IDLE_S)
        with HealthWatch(server) as busy:
            baseline = run_batch(client, DIFFERENT_POINTS, "baseline")
        candidate = run_batch(client, DIFFERENT_POINTS, "candidate", REPAIRED)
        pages = _pages(client, baseline)
    # Services of their own, so that each one's memory is what this reading takes.
    with trainard(url) as server, open_client(server.address) as client:
        comparison = _comparison_row(backend, server, client, (baseline, candidate))
    with trainard(url) as server, open_client(server.address) as client:
        exports = [_export_row(backend, server, client, baseline, form, tables) for form in FORMATS]
    return [
        _pages_row(backend, pages, _raw_pages(backend, tables)),
        _health_row(backend, busy.latency(), idle.latency()),
        comparison,
        *exports,
    ]


def _row(
    measure: str,
    backend: Backend,
    found: str,
    baseline: str = "",
    *,
    ratio: float | None = None,
    target: str = "reported",
) -> Row:
    return {
        "measure": measure,
        "database": backend.name,
        "Trainard": found,
        "baseline": baseline,
        "ratio": "" if ratio is None else f"{ratio:.2f}",
        "target": target,
    }


def _pages(client: httpx.Client, batch: BatchRun) -> list[float]:
    """Seconds of a page for each filter and order, once each, on a service that has answered."""
    seconds = []
    for (column, operator, value), order in PAIRS:
        where = f"{column}:{operator}:{value}"
        seconds.append(read_page(client, batch.url, where=where, order_by=order))
    return seconds


def _raw_pages(backend: Backend, tables: list[Table]) -> list[float]:
    """Seconds of some of the pages by SQL, on a connection that is open."""
    url = backend.new()
    raw_rows.load_rows(url, tables)
    with raw_rows.opened(url) as ask:
        return [_raw_page(ask, where, order) for where, order in PAIRS[::RAW_EVERY]]


def _raw_page(ask: raw_rows.Ask, where: tuple[str, str, float], order: str) -> float:
    column, operator, value = where
    falling = " DESC" if order.startswith("-") else ""
    statement = (
        f'SELECT * FROM point WHERE "{column}" {SQL_OPERATORS[operator]} {value} '
        f'ORDER BY "{order.lstrip("-")}"{falling} LIMIT {ROWS}'
    )
    start = time.perf_counter()
    if len(ask(statement)) != ROWS:
        raise RuntimeError(f"too few rows: {statement}")
    return time.perf_counter() - start


def _pages_row(backend: Backend, pages: Sequence[float], raw_pages: Sequence[float]) -> Row:
    return _row(
        f"sorted page of {ROWS} with all columns, {len(pages)} filters and orders (p50, p95, max)",
        backend,
        _shown(pages),
        f"{_shown(raw_pages)} by SQL",
        ratio=statistics.median(pages) / statistics.median(raw_pages),
    )


def _shown(seconds: Sequence[float]) -> str:
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    figures = (statistics.median(seconds), p95, max(seconds))
    return ", ".join(f"{figure * 1e3:.0f}" for figure in figures) + " ms"


def _health_row(backend: Backend, busy: Latency, idle: Latency) -> Row:
    return _row(
        f"/healthz while the batch runs, {busy.num_answers:,} times (p50, p99, max)",
        backend,
        _shown_latency(busy),
        f"{_shown_latency(idle)} when idle",
        ratio=busy.p99_s / idle.p99_s,
        target=HEALTH_TARGET,
    )


def _shown_latency(found: Latency) -> str:
    figures = (found.p50_s, found.p99_s, found.longest_s)
    return ", ".join(f"{figure * 1e3:.1f}" for figure in figures) + " ms"


def _comparison_row(
    backend: Backend, server: Server, client: httpx.Client, batches: tuple[BatchRun, BatchRun]
) -> Row:
    """The first page twice: the second is what a reader who turns pages waits for."""
    sides = {"baseline": batches[0].batch_id, "candidate": batches[1].batch_id}
    with MemoryWatch(server.process.pid, alone) as memory:
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            found = read(client, "/v1/comparisons", **sides, order_by="-difference.gpu_hours_lost")
            seconds.append(time.perf_counter() - start)
            if found["matched"] != POINTS or len(found["items"]) != ROWS:
                raise RuntimeError(f"{found['matched']} matched, {len(found['items'])} shown")
    return _row(
        "comparison with an equal grid, first page, first and second time",
        backend,
        f"{seconds[0]:.2f} s, {seconds[1]:.2f} s; {_peak(memory)}",
        target=MEMORY_TARGET,
    )


def _export_row(
    backend: Backend,
    server: Server,
    client: httpx.Client,
    batch: BatchRun,
    form: str,
    tables: list[Table],
) -> Row:
    query = urlencode({"format": form, "batch": batch.batch_id})
    size = 0
    with MemoryWatch(server.process.pid, alone) as memory:
        start = time.perf_counter()
        with client.stream("GET", f"/v1/exports?{query}", headers=UNCOMPRESSED) as answer:
            answer.raise_for_status()
            for part in answer.iter_raw():
                size += len(part)
        seconds = time.perf_counter() - start
    arrow_s = write_file(form, tables)
    return _row(
        f"export of all points as {form}",
        backend,
        f"{seconds:.1f} s, {size / MEGABYTE:.0f} MB; {_peak(memory)}",
        "" if arrow_s is None else f"{arrow_s:.1f} s by pyarrow",
        ratio=None if arrow_s is None else seconds / arrow_s,
        target=MEMORY_TARGET,
    )


def _peak(memory: MemoryWatch) -> str:
    return f"serving process peaks at {memory.peak_bytes / MEGABYTE:.0f} MB"


if __name__ == "__main__":
    for row in rows():
        print(row)
