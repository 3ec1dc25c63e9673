"""The trials of `make soak`: each breaks something at full scale, and checks every point after it.

Each returns what happened in one sentence and raises `AssertionError` when a point is lost,
doubled or changed.
"""

import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import httpx
from sqlalchemy import func, select

from service.db import migrate
from service.db.engine import Database
from service.db.tables import chunk_ledger, result_block
from tests.conftest import PostgresServer, running_server
from tests.soak.services import Program, grid, post, wait_for_end

NUM_POINTS = 1_000_000
KILLS = 30
TMPFS = "48m"


def digest_rows(database: Database, batch_id: str) -> list[tuple[object, ...]]:
    """Every stored byte of the batch; asserts that each point is there once."""
    c, ledger = result_block.c, chunk_ledger.c
    identity = UUID(batch_id)
    with database.read() as connection:
        rows = [
            tuple(row)
            for row in connection.execute(
                select(c.block, c.column, c.num_rows, c.data)
                .where(c.batch_id == identity)
                .order_by(c.block, c.column)
            )
        ]
        recorded = connection.scalar(
            select(func.sum(ledger.num_points)).where(ledger.batch_id == identity)
        )
        stored = connection.scalar(
            select(func.sum(c.num_rows)).where(c.batch_id == identity, c.column == "failure")
        )
    assert recorded == stored == NUM_POINTS, (recorded, stored)
    return rows


def workers_of(database: Database, batch_id: str) -> int:
    """How many different processes recorded chunks of the batch."""
    with database.read() as connection:
        return (
            connection.scalar(
                select(func.count(chunk_ledger.c.worker.distinct())).where(
                    chunk_ledger.c.batch_id == UUID(batch_id)
                )
            )
            or 0
        )


def assert_succeeded(batch: dict[str, object]) -> None:
    assert (batch["state"], batch["points_done"], batch["points_failed"]) == (
        "succeeded",
        NUM_POINTS,
        0,
    ), batch


@contextmanager
def sqlite_file() -> Iterator[tuple[str, Path]]:
    """The URL of a SQLite file in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="trainard_soak_") as folder:
        yield f"sqlite:///{folder}/soak.db", Path(folder)


def killed_on_sqlite(log: Path) -> str:
    """The serving process, with its compute processes, killed at random moments."""
    rng = random.Random(1)
    with sqlite_file() as (url, _):
        with Program(url, "serve", "--port", "0", log=log) as service:
            address = service.address()
            undisturbed = post(address, grid(NUM_POINTS))
            assert_succeeded(wait_for_end(address, undisturbed))
            disturbed = post(address, grid(NUM_POINTS))
        kills = 1
        while True:
            with Program(url, "serve", "--port", "0", log=log) as service:
                address = service.address()
                if kills >= KILLS:
                    batch = wait_for_end(address, disturbed)
                    break
                time.sleep(rng.uniform(0.1, 2.5))
            kills += 1
        assert_succeeded(batch)
        database = Database(url)
        assert digest_rows(database, disturbed) == digest_rows(database, undisturbed)
        database.close()
    return f"{kills} kills; {NUM_POINTS:,} points once, the bytes of an undisturbed run"


def killed_on_postgresql(log: Path) -> str:
    """A service and two workers; one of the three is killed at random and started again."""
    rng = random.Random(2)
    with running_server() as server:
        url, database = _migrated(server)
        commands = [("worker",), ("worker",), ("serve", "--port", "18471", "--workers", "0")]
        programs = [Program(url, *command, log=log) for command in commands]
        address = programs[2].address()
        undisturbed = post(address, grid(NUM_POINTS))
        assert_succeeded(wait_for_end(address, undisturbed))
        disturbed = post(address, grid(NUM_POINTS))
        killed = [0, 0, 0]
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.2, 2.5))
            number = rng.randrange(3)
            programs[number].kill()
            killed[number] += 1
            programs[number] = Program(url, *commands[number], log=log)
            if number == 2:
                address = programs[2].address()
        assert_succeeded(wait_for_end(address, disturbed))
        assert digest_rows(database, disturbed) == digest_rows(database, undisturbed)
        hands = workers_of(database, disturbed)
        for program in programs:
            program.kill()
        database.close()
    return (
        f"{sum(killed)} kills ({killed[0]} + {killed[1]} of workers, {killed[2]} of the service); "
        f"{NUM_POINTS:,} points once from {hands} processes, the bytes of an undisturbed run"
    )


def workers_share(log: Path) -> str:
    """The same batch by one, two and five workers: every worker takes part, the bytes agree."""
    seconds = {}
    with running_server() as server:
        url, database = _migrated(server)
        expected: list[tuple[object, ...]] = []
        with Program(url, "serve", "--port", "0", "--workers", "0", log=log) as service:
            address = service.address()
            for number in (1, 2, 5):
                programs = [
                    Program(url, "worker", "--processes", "1", log=log) for _ in range(number)
                ]
                for program in programs:
                    assert program.process.stdout is not None
                    assert "takes work" in program.process.stdout.readline()
                start = time.monotonic()
                batch_id = post(address, grid(NUM_POINTS))
                assert_succeeded(wait_for_end(address, batch_id))
                seconds[number] = time.monotonic() - start
                assert workers_of(database, batch_id) == number
                found = digest_rows(database, batch_id)
                assert found == (expected or found)
                expected = found
                for program in programs:
                    program.send(signal.SIGTERM)
                    assert program.process.wait(60) == 0
        database.close()
    times = ", ".join(f"{number}: {taken:.0f} s" for number, taken in seconds.items())
    return f"all workers took chunks, equal bytes; on this machine {times}"


def server_restarted(log: Path) -> str:
    """PostgreSQL is stopped as by a crash three times in a batch; the workers start anew."""
    with running_server() as server:
        url, database = _migrated(server)
        with Program(url, "serve", "--port", "0", "--workers", "2", log=log) as service:
            address = service.address()
            batch_id = post(address, grid(NUM_POINTS))
            for _ in range(3):
                time.sleep(6)
                server.stop()
                time.sleep(1)
                server.start()
            batch = _patient_end(address, batch_id)
            assert_succeeded(batch)
        digest_rows(database, batch_id)
        database.close()
    return f"3 crashes; {NUM_POINTS:,} points once"


def worker_stopped(log: Path) -> str:
    """One of two workers is stopped (SIGSTOP) with chunks in hand, and wakes up at the end."""
    with running_server() as server:
        url, database = _migrated(server)
        with (
            Program(url, "serve", "--port", "0", "--workers", "0", log=log) as service,
            Program(url, "worker", log=log) as stopped,
            Program(url, "worker", log=log),
        ):
            address = service.address()
            batch_id = post(address, grid(NUM_POINTS))
            time.sleep(8)
            stopped.send(signal.SIGSTOP)
            start = time.monotonic()
            assert_succeeded(wait_for_end(address, batch_id))
            took_s = time.monotonic() - start
            before = digest_rows(database, batch_id)
            stopped.send(signal.SIGCONT)
            time.sleep(5)
            assert digest_rows(database, batch_id) == before
            again = post(address, grid(NUM_POINTS))
            assert_succeeded(wait_for_end(address, again))
            hands = workers_of(database, again)
        database.close()
    return (
        f"the batch ended {took_s:.0f} s later without it; awake, it wrote nothing of the old "
        f"batch and {'shared' if hands == 2 else 'did not share'} the next"
    )


def disk_full(log: Path) -> str:
    """A SQLite file on a small file system (tmpfs) that the batch fills."""
    folder = Path(tempfile.mkdtemp(prefix="trainard_full_"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={TMPFS}", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        raise RuntimeError(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    try:
        url = f"sqlite:///{folder}/soak.db"
        with Program(url, "serve", "--port", "0", log=log) as service:
            address = service.address()
            batch_id = post(address, grid(NUM_POINTS, kind="normal"))
            said = _not_ready(address)
            assert "disk is full" in said, said
            time.sleep(20)
            subprocess.run(["mount", "-o", "remount,size=2g", str(folder)], check=True)
            batch = wait_for_end(address, batch_id, 300)
            assert batch["points_done"] == NUM_POINTS, batch
            assert batch["state"] in {"succeeded", "partially_failed"}, batch
            assert httpx.get(f"{address}/readyz").status_code == httpx.codes.OK
            again = wait_for_end(address, post(address, grid(NUM_POINTS, kind="normal")))
            assert_succeeded(again)
    finally:
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)
    return (
        "the service went on reading and said so in /readyz (503); with room again the batch ended "
        f"{batch['state']} ({batch['points_failed']:,} points failed with the reason) and the next "
        "one succeeded, in the same process"
    )


TRIALS: dict[str, Callable[[Path], str]] = {
    f"{KILLS} random kills of the serving process, SQLite": killed_on_sqlite,
    f"{KILLS} random kills of two workers and the service, PostgreSQL": killed_on_postgresql,
    "1, 2 and 5 workers, PostgreSQL": workers_share,
    "PostgreSQL crashes in the middle": server_restarted,
    "a stopped worker (SIGSTOP), PostgreSQL": worker_stopped,
    "a full disk (tmpfs), SQLite": disk_full,
}


def _migrated(server: PostgresServer) -> tuple[str, Database]:
    name = server.new_database()
    migrate.upgrade(server.url(name))
    return server.url(name), Database(server.url(name))


def _not_ready(address: str) -> str:
    """Wait until the service says that it is not ready; what it says."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        answer = httpx.get(f"{address}/readyz", timeout=60)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return answer.text
        time.sleep(0.1)
    raise TimeoutError("it stayed ready")


def _patient_end(address: str, batch_id: str) -> dict[str, object]:
    """Ask over a service whose database is away at times."""
    end = time.monotonic() + 900
    while time.monotonic() < end:
        with suppress(Exception):
            return wait_for_end(address, batch_id)
        time.sleep(0.5)
    raise TimeoutError(batch_id)
