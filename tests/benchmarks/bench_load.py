"""64 clients of all roles that read and write beside a running batch, against a bare echo.

The same clients ask the bare Litestar application to send a small scenario back; beside it the
same load on a service that is open, since no key was ever made.
"""

import asyncio
import time
from collections.abc import Sequence

import uvloop

from service.db import migrate
from service.db.engine import Database
from tests.benchmarks.own_databases import Backend, backends
from tests.benchmarks.processes import bare_echo, trainard
from tests.jobs.batch_bodies import SEED
from tests.load.loads import Load, keys_for, lasting
from tests.load.rigs import assert_nothing_lost
from tests.load.tally import figures
from tests.raw_http import Connection

Row = dict[str, str]

NUM_CLIENTS = 64
MEASURED_S = 10.0
# More than is computed meanwhile
NUM_POINTS = 5_000_000


def rows() -> list[Row]:
    """What each database measures, and the echo in the same run."""
    with bare_echo() as echo:
        seconds = uvloop.run(echoed(echo.address))
    found = figures(seconds, MEASURED_S)
    bare = f"{found.per_s:,.0f}/s, p99 {found.p99_ms:.0f} ms"
    with backends() as kinds:
        return [_row(backend, bare) for backend in kinds]


def _row(backend: Backend, bare: str) -> Row:
    closed, opened = loaded(backend, with_keys=True), loaded(backend, with_keys=False)
    return {
        "measure": f"{backend.name}: {NUM_CLIENTS} clients, reads and writes, a batch beside",
        "Trainard, with keys": _shown(closed),
        "Trainard, open": _shown(opened),
        "bare echo": bare,
        "target": "no lost write, no 5xx",
    }


def loaded(backend: Backend, *, with_keys: bool) -> Load:
    """A service of its own under load; raises when a write is lost or an answer is not expected."""
    url = backend.new()
    migrate.upgrade(url)
    database = Database(url)
    try:
        keys: Sequence[dict[str, str]] = keys_for(database, NUM_CLIENTS) if with_keys else ()
        with trainard(url) as server:
            load = Load(addresses=[server.address], num_clients=NUM_CLIENTS, keys=keys)
            load.run(num_points=NUM_POINTS, disturb=lasting(MEASURED_S))
            assert_nothing_lost(load, database)
    finally:
        database.close()
    return load


def _shown(load: Load) -> str:
    seconds = load.tally.seconds
    total = sum(len(kind) for kind in seconds.values()) / load.for_s
    reads, writes = (figures(seconds[kind], load.for_s) for kind in ("read", "write"))
    return (
        f"{total:,.0f}/s ({writes.per_s:,.0f} writes), p99 {reads.p99_ms:.0f} ms read, "
        f"{writes.p99_ms:.0f} ms write"
    )


async def echoed(address: str) -> list[float]:
    """Seconds of each answer of the echo to as many clients."""
    seconds: list[float] = []
    until = time.perf_counter() + MEASURED_S

    async def ask() -> None:
        async with Connection(address) as connection:
            while (start := time.perf_counter()) < until:
                answer = await connection.ask("POST", "/v1/evaluations", {"scenario": SEED})
                assert answer.status == 200, answer
                seconds.append(time.perf_counter() - start)

    await asyncio.gather(*(ask() for _ in range(NUM_CLIENTS)))
    return seconds


if __name__ == "__main__":
    for row in rows():
        print(row)
