"""Copies that are refused, and restoring that is killed: a whole database is left every time."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import func, select

from service.db.api_keys import any_key
from service.db.engine import Database
from service.db.tables import scenario_batch
from service.errors import ConflictError, InvalidError, UnavailableError
from service.jobs.actors import program
from service.jobs.api_keys import create_key
from service.jobs.backups import back_up
from service.jobs.key_documents import KeyIn
from service.jobs.restores import KeysLostError, restore
from tests.jobs.batch_bodies import SIZES, item, run
from tests.jobs.held_rows import held

ROOT = Path(__file__).parents[2]
PAGE = 4096


class Case(NamedTuple):
    """A database with one batch, its copy and the copy's digest."""

    url: str
    file: Path
    copy: Path
    sha256: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Case:
    folder = tmp_path_factory.mktemp("made")
    file, copy = folder / "trainard.db", folder / "copy.db"
    shutil.copyfile(sqlite_template, file)
    database = Database(f"sqlite:///{file}")
    run(database, item(axes=[SIZES]))
    steps: list[tuple[int, int]] = []
    found = back_up(database, copy, progress=lambda left, total: steps.append((left, total)))
    database.close()
    assert steps[-1] == (0, copy.stat().st_size // PAGE)
    return Case(str(database.url), file, copy, found.sha256)


@pytest.fixture
def case(made: Case, tmp_path: Path) -> Iterator[Case]:
    """Of the test's own; whatever happens, nothing temporary is left."""
    folder = tmp_path / "data"
    folder.mkdir()
    file, copy = folder / "trainard.db", tmp_path / "copy.db"
    shutil.copyfile(made.file, file)
    shutil.copyfile(made.copy, copy)
    yield Case(f"sqlite:///{file}", file, copy, made.sha256)
    assert list(folder.glob(".*")) == []


def damage(copy: Path, how: str) -> None:
    data = bytearray(copy.read_bytes())
    if how == "a changed page":
        # Not the first: its damage is that of the whole file.
        data[8 * PAGE : 9 * PAGE] = b"\xa5" * PAGE
    elif how == "a changed value":
        place = data.index(b"one-slow")
        data[place : place + 3] = b"two"
    elif how == "half":
        del data[len(data) // 2 :]
    elif how == "all but a page":
        del data[-PAGE:]
    elif how == "a few bytes":
        del data[100:]
    elif how == "nothing":
        data.clear()
    else:
        data[:16] = b"not a database!!"
    copy.write_bytes(data)


@pytest.mark.parametrize(
    "how",
    ["a changed page", "half", "all but a page", "a few bytes", "nothing", "another file"],
)
def test_a_damaged_copy_is_refused_and_nothing_has_changed(case: Case, how: str) -> None:
    damage(case.copy, how)
    with pytest.raises(InvalidError, match=r"damaged|no whole|none of"):
        restore(case.url, case.copy)
    assert held(case.file) == (1, 15, ["backup"])


def test_a_changed_value_is_found_by_the_digest(case: Case) -> None:
    damage(case.copy, "a changed value")
    with pytest.raises(InvalidError, match=f"not {case.sha256}"):
        restore(case.url, case.copy, sha256=case.sha256)
    assert held(case.file) == (1, 15, ["backup"])


def test_other_databases_and_newer_ones_are_refused(case: Case, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE things (id)")
    with pytest.raises(InvalidError, match="none of Trainard's"):
        restore(case.url, tmp_path / "other.db")
    with closing(sqlite3.connect(case.copy)) as copy, copy:
        copy.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(InvalidError, match="revision 9999 of a newer version"):
        restore(case.url, case.copy)
    with pytest.raises(ConflictError, match="is the database itself"):
        restore(case.url, case.file)
    with pytest.raises(InvalidError, match="is no file"):
        restore(case.url, tmp_path / "absent.db")
    Path(f"{case.copy}-wal").write_bytes(b"x")
    with pytest.raises(InvalidError, match="has a WAL beside it"):
        restore(case.url, case.copy)
    assert held(case.file) == (1, 15, ["backup"])


def test_rows_that_refer_to_nothing_are_found(case: Case) -> None:
    with closing(sqlite3.connect(case.copy)) as copy, copy:
        copy.execute("DELETE FROM scenario_batch")
    with pytest.raises(InvalidError, match="rows of batch_item, result_block"):
        restore(case.url, case.copy)


def test_an_open_connection_is_in_the_way(case: Case) -> None:
    database = Database(case.url)
    with database.read() as connection:
        connection.scalar(select(func.count()).select_from(scenario_batch))
    # Idle in the pool now, as those of a service that nobody asks.
    with pytest.raises(ConflictError, match=r"another process has .* open"):
        restore(case.url, case.copy)
    assert list(case.file.parent.glob("*.before-restore-*")) == []
    database.close()
    assert restore(case.url, case.copy).replaced is not None
    assert held(case.file) == (1, 15, ["restore"])


def test_a_database_that_cannot_be_opened_now_is_not_taken_for_a_damaged_one(case: Case) -> None:
    shared_memory = Path(f"{case.file}-shm")
    shared_memory.mkdir()
    with pytest.raises(UnavailableError, match=r"trainard.db: (unable to open|attempt to write)"):
        restore(case.url, case.copy)
    shared_memory.rmdir()
    assert held(case.file) == (1, 15, ["backup"])


KILLING = """
import os, signal, sys
from service.db import backups
from service.cli import main

name, nth = sys.argv.pop(1), int(sys.argv.pop(1))
module = backups if hasattr(backups, name) else os
replaced, count = getattr(module, name), 0

def killing(*arguments, **named):
    global count
    count += 1
    if count == nth:
        os.kill(os.getpid(), signal.SIGKILL)
    return replaced(*arguments, **named)

setattr(module, name, killing)
main()
"""


@pytest.mark.parametrize(
    ("point", "nth", "there"),
    [
        # Before the tables of the copy are brought up to date
        ("check", 1, ["backup"]),
        # The queue is gone
        ("put_in_place", 1, ["backup"]),
        # The old one has two names
        ("flush", 2, ["backup"]),
        ("flush", 3, ["restore"]),
    ],
)
def test_a_restore_that_is_killed_leaves_a_whole_database(
    made: Case, tmp_path: Path, point: str, nth: int, there: list[str]
) -> None:
    file = tmp_path / "trainard.db"
    shutil.copyfile(made.file, file)
    arguments = ("restore", str(made.copy), "--database-url", f"sqlite:///{file}")
    killed = subprocess.run(
        [sys.executable, "-c", KILLING, point, str(nth), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with closing(sqlite3.connect(file)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert held(file) == (1, 15, there)
    # What the killed one left goes with the next.
    assert len(list(tmp_path.glob(".trainard.db.*.part-lock"))) == 1
    restore(f"sqlite:///{file}", made.copy)
    assert held(file) == (1, 15, ["restore"])
    assert list(tmp_path.glob(".*")) == []


def make_key(url: str) -> None:
    database = Database(url)
    with database.write() as connection:
        create_key(connection, program("key"), KeyIn(name="first", role="admin"))
    database.close()


def test_a_copy_without_keys_does_not_open_a_service_that_has_some(case: Case) -> None:
    make_key(case.url)
    node = case.file.stat().st_ino
    with pytest.raises(KeysLostError, match=r"no API key, but .*trainard.db has 1:"):
        restore(case.url, case.copy)
    assert case.file.stat().st_ino == node
    assert list(case.file.parent.glob("*.before-restore-*")) == []
    database = Database(case.url)
    with database.read() as connection:
        assert any_key(connection)
    database.close()
    assert restore(case.url, case.copy, without_keys=True).contents.num_keys == 0
    assert held(case.file) == (1, 15, ["restore"])


def test_a_copy_with_keys_is_restored_over_one_with_others(case: Case, tmp_path: Path) -> None:
    make_key(case.url)
    database = Database(case.url)
    back_up(database, tmp_path / "keyed.db", progress=lambda *_: None)
    database.close()
    assert restore(case.url, tmp_path / "keyed.db").contents.num_keys == 1


def test_a_copy_whose_tables_are_not_those_of_its_revision_is_refused(case: Case) -> None:
    with closing(sqlite3.connect(case.copy)) as copy, copy:
        copy.execute("DROP TABLE audit_chain")
    with pytest.raises(InvalidError, match="cannot be brought up to date: no such table"):
        restore(case.url, case.copy)
    assert held(case.file) == (1, 15, ["backup"])
