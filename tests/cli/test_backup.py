"""`trainard backup` and `trainard restore` as real programs, beside a real service."""

import hashlib
import os
import re
import signal
import sqlite3
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from sqlalchemy import select

from service.db import migrate
from service.db.engine import Database
from service.db.tables import cluster_profile
from tests.cli.conftest import Program, Start
from tests.conftest import PostgresServer
from tests.jobs.batch_bodies import SEED, SIZES, item, run, speeds
from tests.jobs.engine_processes import assert_same_bits, assert_whole
from tests.jobs.held_rows import held

URL = "sqlite:///data/trainard.db"
# Of 10 000 pages or so: far more than one step of the copy
NUM_POINTS = 200_000
# With the gamma distribution, so that it runs for seconds
GRID = item(
    scenario={**SEED, "variability": {"transient": {"kind": "gamma", "cv": 0.05}}},
    axes=[
        {
            "path": "slow_groups.0.speed_fraction",
            "logspace": {"start": 0.5, "stop": 0.99, "num": 200},
        },
        {"path": "variability.transient.cv", "logspace": {"start": 0.01, "stop": 0.3, "num": 1000}},
    ],
)


def served(start: Start) -> tuple[subprocess.Popen[str], str]:
    service = start("serve", "--port", "0")
    assert service.stdout is not None
    return service, service.stdout.readline().split()[4]


def stop(service: subprocess.Popen[str], number: int = signal.SIGTERM) -> None:
    service.send_signal(number)
    service.wait(60)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The default database of the folder that the programs run in, with one finished batch."""
    path = tmp_path / "data" / "trainard.db"
    migrate.upgrade(f"sqlite:///{path}")
    opened = Database(f"sqlite:///{path}")
    run(opened, item(axes=[SIZES]))
    opened.close()
    return path


def test_a_copy_of_a_running_batch_goes_on_to_the_same_bits(
    start: Start, trainard_process: Program, tmp_path: Path
) -> None:
    service, address = served(start)
    with httpx.Client(base_url=address, timeout=60) as client:
        body = {"name": "grid", "reuse": False, "items": [GRID]}
        whole = client.post("/v1/scenario-batches", json=body, headers={"Prefer": "wait=60"})
        undisturbed = whole.json()["id"]
        disturbed = client.post("/v1/scenario-batches", json=body).json()["id"]
        wait_until(lambda: points_done(client, disturbed) > 0, 60)
        stopping = threading.Event()
        acknowledged: list[str] = []
        writer = threading.Thread(target=write_profiles, args=(address, stopping, acknowledged))
        writer.start()
        wait_until(lambda: len(acknowledged) > 5)
        before = list(acknowledged)
        made = trainard_process("backup", "copy.db")
        stopping.set()
        writer.join()
    assert made.returncode == 0, made.stderr
    copy = tmp_path / "copy.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert f"{copy.stat().st_size:,} bytes, whole" in made.stdout
    sha256 = hashlib.sha256(copy.read_bytes()).hexdigest()
    assert f"SHA-256 {sha256}" in made.stdout
    assert list(tmp_path.glob(".copy.db*")) == []
    # It was taken in the middle, and holds what was acknowledged before it began.
    with closing(sqlite3.connect(copy)) as opened:
        state, done = opened.execute(
            "SELECT state, points_done FROM scenario_batch WHERE id = ?", [UUID(disturbed).hex]
        ).fetchone()
        slugs = {row[0] for row in opened.execute("SELECT slug FROM cluster_profile")}
    assert (state, done < NUM_POINTS) == ("running", True)
    assert set(before) <= slugs

    refused = trainard_process("restore", "copy.db")
    assert refused.returncode == 1
    assert "stop it first" in refused.stderr
    stop(service, signal.SIGKILL)
    restored = trainard_process("restore", "copy.db", "--sha256", sha256)
    assert restored.returncode == 0, restored.stderr
    assert not (tmp_path / "data" / "trainard-jobs.db").exists()
    (kept,) = (tmp_path / "data").glob("trainard.db.before-restore-*")

    assert_goes_on(start, tmp_path, undisturbed, disturbed, slugs)
    # What was replaced has all that was written after the copy.
    with closing(sqlite3.connect(kept)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        after = {row[0] for row in opened.execute("SELECT slug FROM cluster_profile")}
    assert set(acknowledged) <= after


def assert_goes_on(
    start: Start, folder: Path, undisturbed: str, disturbed: str, slugs: set[str]
) -> None:
    """Serve the restored database until its batch has ended: the other's bits, the copy's rows."""
    service, address = served(start)
    with httpx.Client(base_url=address, timeout=60) as client:
        wait_until(lambda: state_of(client, disturbed) == "succeeded")
    stop(service)
    found = Database(f"sqlite:///{folder / 'data' / 'trainard.db'}")
    assert_whole(found, UUID(disturbed), NUM_POINTS)
    assert_same_bits(found, UUID(disturbed), UUID(undisturbed))
    with found.read() as connection:
        assert set(connection.scalars(select(cluster_profile.c.slug))) == slugs
    found.close()


def write_profiles(address: str, stopping: threading.Event, acknowledged: list[str]) -> None:
    with httpx.Client(base_url=address, timeout=60) as client:
        for number in range(10_000):
            if stopping.is_set():
                return
            slug = f"profile-{number}"
            body = {"slug": slug, "name": slug, "gpu_type": "H100", "defaults": SEED}
            answer = client.post("/v1/cluster-profiles", json=body)
            assert answer.status_code == httpx.codes.CREATED, answer.text
            acknowledged.append(slug)


def points_done(client: httpx.Client, batch_id: str) -> int:
    done: int = client.get(f"/v1/scenario-batches/{batch_id}").json()["points_done"]
    return done


def state_of(client: httpx.Client, batch_id: str) -> str:
    state: str = client.get(f"/v1/scenario-batches/{batch_id}").json()["state"]
    return state


def test_both_are_audited_and_an_existing_file_is_kept(
    trainard: Program, database: Path, tmp_path: Path
) -> None:
    assert trainard("backup", "copy.db").returncode == 0
    first = (tmp_path / "copy.db").read_bytes()
    refused = trainard("backup", "copy.db")
    assert (refused.returncode, (tmp_path / "copy.db").read_bytes()) == (1, first)
    assert "--force" in refused.stderr
    assert trainard("backup", "copy.db", "--force").returncode == 0
    assert held(tmp_path / "copy.db") == (1, 15, ["backup"])
    assert held(database) == (1, 15, ["backup", "backup"])
    database.chmod(0o640)
    restored = trainard("restore", "copy.db")
    assert restored.returncode == 0, restored.stderr
    assert "1 batches, 15 points, 0 API keys" in restored.stdout
    assert held(database) == (1, 15, ["backup", "restore"])
    assert stat.S_IMODE(database.stat().st_mode) == 0o640
    # What was replaced is a copy like others.
    (kept,) = database.parent.glob("*.before-restore-*")
    assert trainard("restore", str(kept)).returncode == 0
    assert held(database) == (1, 15, ["backup", "backup", "restore"])


def test_a_service_that_is_idle_is_noticed(trainard: Program, start: Start, database: Path) -> None:
    assert trainard("backup", "copy.db").returncode == 0
    holder, _ = served(start)
    idle, address = served(start)
    stop(holder, signal.SIGKILL)
    # The lock of the computing process is taken over within a second: a copy is restored, as the
    # idle one is stopped, before that.
    os.kill(idle.pid, signal.SIGSTOP)
    try:
        refused = trainard("restore", "copy.db")
    finally:
        os.kill(idle.pid, signal.SIGCONT)
    assert refused.returncode == 1
    assert "another process has" in refused.stderr
    assert httpx.get(f"{address}/readyz", timeout=60).status_code == httpx.codes.OK
    assert list(database.parent.glob("*.before-restore-*")) == []
    assert list(database.parent.glob(".*")) == []


def test_an_older_copy_is_migrated_into_an_empty_place(trainard: Program, tmp_path: Path) -> None:
    # Copied by this version before it migrates
    old = f"sqlite:///{tmp_path / 'old.db'}"
    migrate.upgrade(old, "0002")
    made = trainard("backup", "copy.db", "--database-url", old)
    assert made.returncode == 0, made.stderr
    assert migrate.current(old) == "0002"
    restored = trainard("restore", "copy.db")
    assert restored.returncode == 0, restored.stderr
    assert "migrated from 0002" in restored.stdout
    assert migrate.current(f"sqlite:///{tmp_path / 'data' / 'trainard.db'}") == migrate.head()
    assert held(tmp_path / "data" / "trainard.db")[2] == ["restore"]


def test_a_damaged_database_is_replaced_and_kept(
    trainard: Program, database: Path, tmp_path: Path
) -> None:
    assert trainard("backup", "copy.db").returncode == 0
    database.write_bytes(b"\xa5" * 20_000)
    Path(f"{database}-wal").write_bytes(b"\xa5" * 5_000)
    refused = trainard("backup", "other.db")
    assert refused.returncode == 1
    assert not (tmp_path / "other.db").exists()
    # Whether it had keys cannot be told.
    refused = trainard("restore", "copy.db")
    assert (refused.returncode, "cannot be read, and may have had some" in refused.stderr) == (
        2,
        True,
    )
    restored = trainard("restore", "copy.db", "--without-keys")
    assert restored.returncode == 0, restored.stderr
    assert held(database) == (1, 15, ["restore"])
    (kept,) = database.parent.glob("*.before-restore-*Z")
    assert kept.read_bytes() == b"\xa5" * 20_000


def test_keys_are_not_lost_and_the_database_not_replaced_without_a_word(
    trainard: Program, database: Path
) -> None:
    assert trainard("backup", "copy.db").returncode == 0
    assert trainard("key", "create", "--role", "admin").returncode == 0
    node = database.stat().st_ino
    refused = trainard("backup", "--force", "data/trainard.db")
    assert (refused.returncode, database.stat().st_ino) == (1, node)
    assert "of the database itself" in refused.stderr
    refused = trainard("restore", "copy.db")
    assert (refused.returncode, database.stat().st_ino) == (2, node)
    assert "data/trainard.db has 1: with it, everybody" in refused.stderr
    assert "Nothing has changed; --without-keys restores it all the same." in refused.stderr
    restored = trainard("restore", "copy.db", "--without-keys")
    assert restored.returncode == 0, restored.stderr
    assert "WARNING: this database has no API key" in restored.stderr
    (kept,) = database.parent.glob("*.before-restore-*")
    restored = trainard("restore", str(kept))
    assert (restored.returncode, "WARNING" in restored.stderr) == (0, False)


def test_a_database_that_is_not_there_is_not_copied(trainard: Program, tmp_path: Path) -> None:
    refused = trainard("backup", "copy.db")
    assert refused.returncode == 1
    assert "there is no database" in refused.stderr
    assert not (tmp_path / "data" / "trainard.db").exists()


@pytest.mark.postgres
def test_postgresql_names_commands_that_work(
    trainard: Program, start: Start, own_postgres: tuple[str, Path], tmp_path: Path
) -> None:
    url, programs = own_postgres
    said = trainard("backup", "copy.dump", "--database-url", url)
    assert said.returncode == 2
    assert said.stderr == trainard("restore", "copy.dump", "--database-url", url).stderr
    commands = re.sub(r"\\\n", "", said.stderr)
    dump, make, load, serve = (
        line.strip() for line in commands.splitlines() if line.startswith("  ")
    )
    assert ("pg_dump" in dump, "createdb" in make, "pg_restore" in load) == (True,) * 3

    service = start("serve", "--port", "0", "--database-url", url)
    assert service.stdout is not None
    address = service.stdout.readline().split()[4]
    with httpx.Client(base_url=address, timeout=60) as client:
        posted = client.post(
            "/v1/scenario-batches",
            json={"name": "grid", "reuse": False, "items": [item(axes=[speeds(20_000)])]},
            headers={"Prefer": "wait=60"},
        ).json()
        paths = [
            f"/v1/scenario-batches/{posted['id']}",
            f"/v1/scenario-batches/{posted['id']}/results?page_size=1000",
        ]
        assert posted["state"] == "succeeded"
        before = [client.get(path).content for path in paths]
        shell(dump, programs, tmp_path)
    stop(service)
    shell(make, programs, tmp_path)
    shell(load, programs, tmp_path)
    assert stat.S_IMODE((tmp_path / "copy.dump").stat().st_mode) == 0o600
    restored = start("serve", "--port", "0", "--database-url", serve.split()[-1].strip("'"))
    assert restored.stdout is not None
    address = restored.stdout.readline().split()[4]
    with httpx.Client(base_url=address, timeout=60) as client:
        assert [client.get(path).content for path in paths] == before


def shell(command: str, programs: Path, folder: Path) -> None:
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def own_postgres(postgres_url: str, postgres_server: PostgresServer) -> Iterator[tuple[str, Path]]:
    yield postgres_url, postgres_server._programs
    postgres_server.execute("DROP DATABASE IF EXISTS trainard_restored WITH (FORCE)")
