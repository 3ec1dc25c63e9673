"""The trials of `make soak` under load: 64 clients of all roles write, read and are cut off."""

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from uuid import UUID

from service.db import migrate
from tests.conftest import running_server
from tests.jobs.engine_processes import assert_whole
from tests.load.loads import Load, lasting
from tests.load.rigs import Rig, assert_nothing_lost
from tests.load.tally import figures

Url = Callable[[], AbstractContextManager[str]]

NUM_CLIENTS = 64
SECONDS = 60.0
LOAD_POINTS = 1_000_000
# So many that they are not all computed when the last kill comes.
KILL_POINTS = 3_000_000
SQLITE_KILLS = 50
POSTGRESQL_KILLS = 20
LONGEST_S = 2.5
# With the durability that a server has by default
DURABLE = "-c listen_addresses=''"


@contextmanager
def sqlite_url() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="trainard_load_") as folder:
        url = f"sqlite:///{folder}/load.db"
        migrate.upgrade(url)
        yield url


@contextmanager
def postgresql_url() -> Iterator[str]:
    with running_server(options=DURABLE) as server:
        url = server.url(server.new_database())
        migrate.upgrade(url)
        yield url


def load_on(database_url: Url, log: Path) -> str:
    """The load alone, for a minute."""
    with database_url() as url, Rig(url, log) as rig:
        load = rig.load(NUM_CLIENTS)
        load.run(num_points=LOAD_POINTS, disturb=lasting(SECONDS))
        batch = load.wait_for_large_batch()
        assert_nothing_lost(load, rig.database)
        assert_whole(rig.database, UUID(batch["id"]), LOAD_POINTS)
    tally = load.tally
    assert tally.broken == 0, tally.broken
    return (
        f"reads {figures(tally.seconds['read'], load.for_s)}; "
        f"writes {figures(tally.seconds['write'], load.for_s)}; {_found(load)}"
    )


def kills_on(database_url: Url, kills: int, log: Path) -> str:
    """Programs killed at random moments of the load, and started again."""
    with database_url() as url, Rig(url, log) as rig:
        load = rig.load(NUM_CLIENTS)
        load.run(num_points=KILL_POINTS, disturb=rig.killing(kills, random.Random(3), LONGEST_S))
        batch = load.wait_for_large_batch(1_800)
        assert_nothing_lost(load, rig.database)
        assert_whole(rig.database, UUID(batch["id"]), KILL_POINTS)
        clean = "the file whole after each, " if rig.database.is_sqlite else ""
        killed = ", ".join(f"{rig.killed[name]} of {name}" for name in sorted(rig.killed))
    return (
        f"{kills} kills ({killed}), {clean}{load.tally.broken:,} requests cut off and sent again; "
        f"{_found(load)}; {KILL_POINTS:,} points once"
    )


def _found(load: Load) -> str:
    tally = load.tally
    return (
        f"{sum(tally.statuses.values()):,} answers, {tally.statuses[503]} of them 503, no other "
        f"5xx; {tally.num_writes:,} acknowledged writes there once, {len(tally.keyed):,} of them "
        "sent again with their keys: the same answers; the audit trail verified, without a gap"
    )


LOAD_TRIALS: dict[str, Callable[[Path], str]] = {
    f"load: {NUM_CLIENTS} clients of all roles for {SECONDS:.0f} s, SQLite": lambda log: load_on(
        sqlite_url, log
    ),
    f"load: {NUM_CLIENTS} clients of all roles for {SECONDS:.0f} s, PostgreSQL": (
        lambda log: load_on(postgresql_url, log)
    ),
    f"load and {SQLITE_KILLS} random kills of the serving process, SQLite": lambda log: kills_on(
        sqlite_url, SQLITE_KILLS, log
    ),
    f"load and {POSTGRESQL_KILLS} random kills of the service or its worker, PostgreSQL": (
        lambda log: kills_on(postgresql_url, POSTGRESQL_KILLS, log)
    ),
}
