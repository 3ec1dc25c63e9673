"""The maker of exported files: snapshots, kills in the middle, two makers, limits."""

import hashlib
import subprocess
import sys
from uuid import UUID

import pytest

from service.db.engine import Database
from service.errors import ConflictError
from service.jobs import deletions, export_files, export_making, export_results
from service.jobs.export_making import Maker, cut
from service.jobs.tasks import TASKS
from tests.jobs.batch_bodies import ACTOR, item, speeds
from tests.jobs.completed import complete
from tests.jobs.export_bodies import (
    FORMATS,
    ask,
    look_at,
    make,
    num_parts,
    run,
    stored_bytes,
    written,
)
from tests.reports.export_readers import READERS

SMALL_PARTS = 1_000


class KilledError(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has many parts."""
    monkeypatch.setattr(export_making, "PART_BYTES", SMALL_PARTS)


def killed_after(
    monkeypatch: pytest.MonkeyPatch, database: Database, export_id: UUID, parts: int
) -> None:
    """Make the file, and end in the middle: after so many parts are stored."""
    store = Maker.store
    stored = 0

    def store_or_die(self: Maker, part: bytes) -> None:
        nonlocal stored
        if stored == parts:
            raise KilledError
        store(self, part)
        stored += 1

    with monkeypatch.context() as patch:
        patch.setattr(Maker, "store", store_or_die)
        with pytest.raises(KilledError):
            export_making.run(database, export_id)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_maker_after_a_killed_one_makes_the_same_bytes(
    database: Database, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    run(database, item(axes=[speeds(40)]))
    undisturbed = make(database, format=format_name)
    export_id = ask(database, format=format_name)
    for parts in (3, 0, 2):
        killed_after(monkeypatch, database, export_id, parts)
        assert num_parts(database, export_id) == parts
        left = look_at(database, export_id)
        assert (left.state, left.bytes) == ("running", parts * SMALL_PARTS)
    export_making.run(database, export_id)
    made = look_at(database, export_id)
    assert (made.state, made.rows) == ("succeeded", 40)
    assert made.sha256 == undisturbed.sha256
    data = stored_bytes(database, export_id)
    assert hashlib.sha256(data).hexdigest() == made.sha256
    export_making.run(database, export_id)
    assert look_at(database, export_id) == made


def test_a_killed_maker_leaves_work_that_is_sent_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, item(axes=[speeds(40)]))
    export_id = ask(database)
    task = TASKS["export"]
    with database.write() as connection:
        assert task.unsent(connection, 1) == [export_id]
        task.mark_sent(connection, [export_id], 1)
        assert task.unsent(connection, 1) == []
    killed_after(monkeypatch, database, export_id, 1)
    with database.read() as connection:
        assert task.unsent(connection, 2) == [export_id]
    complete(database)
    assert look_at(database, export_id).state == "succeeded"
    with database.read() as connection:
        assert task.unsent(connection, 3) == []


@pytest.mark.parametrize("format_name", FORMATS)
def test_one_snapshot_is_written_whatever_happens_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    """Between the first part and the second one batch ends and the exported one is deleted."""
    batch = run(database, item(axes=[speeds(40)]))
    before = written(database, format=format_name)
    export_id = ask(database, format=format_name)
    store = Maker.store

    def store_and_change(self: Maker, part: bytes) -> None:
        store(self, part)
        if self.num_parts == 1:
            with database.write() as connection:
                deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)
            deletions.run(database, batch.id)
            run_other()

    def run_other() -> None:
        monkeypatch.setattr(Maker, "store", store)
        run(database, item(axes=[speeds(7)]))

    # The file itself would be made once more by what runs the other batch.
    with database.write() as connection:
        TASKS["export"].mark_sent(connection, [export_id], 2)
    monkeypatch.setattr(Maker, "store", store_and_change)
    export_making.run(database, export_id)
    assert stored_bytes(database, export_id) == before
    assert look_at(database, export_id).rows == 40
    rows = READERS[format_name](written(database, format=format_name))
    assert len(rows) == 7


def test_of_two_makers_one_makes_the_file(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A maker that stood still wakes up while, or after, another one has made the file."""
    run(database, item(axes=[speeds(40)]))
    store = Maker.store

    def overtaken(self: Maker, part: bytes) -> None:
        store(self, part)
        if self.num_parts == 2:
            monkeypatch.setattr(Maker, "store", store)
            export_making.run(database, self.export_id)

    export_id = ask(database)
    monkeypatch.setattr(Maker, "store", overtaken)
    export_making.run(database, export_id)
    made = look_at(database, export_id)
    data = stored_bytes(database, export_id)
    assert (made.state, made.rows) == ("succeeded", 40)
    assert hashlib.sha256(data).hexdigest() == made.sha256
    assert data == written(database)


def test_a_file_that_is_deleted_while_it_is_made_stays_deleted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, item(axes=[speeds(40)]))
    store = Maker.store

    def deleted_meanwhile(self: Maker, part: bytes) -> None:
        store(self, part)
        with database.write() as connection:
            export_files.delete(connection, ACTOR, self.export_id, expected_version=self.version)

    export_id = ask(database)
    monkeypatch.setattr(Maker, "store", deleted_meanwhile)
    export_making.run(database, export_id)
    assert num_parts(database, export_id) == 1
    complete(database)
    assert num_parts(database, export_id) == 0


def test_what_cannot_be_made_ends_with_its_reason(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = run(database, item(axes=[speeds(40)]))
    monkeypatch.setattr(export_results, "MAX_SORTED_ROWS", 39)
    too_many = make(database, order_by="point")
    assert too_many.state == "failed"
    assert "more than 39 rows match" in str(too_many.failure)
    assert too_many.expires_at is not None
    with database.read() as connection, pytest.raises(ConflictError, match="39 rows") as caught:
        export_files.stored_file(connection, ACTOR, too_many.id)
    assert caught.value.problem == "export-failed"
    monkeypatch.setattr(export_making, "MAX_FILE_BYTES", 3 * SMALL_PARTS)
    too_large = make(database)
    assert (too_large.state, too_large.bytes) == ("failed", 3 * SMALL_PARTS)
    assert "more than 3000 bytes" in str(too_large.failure)
    assert num_parts(database, too_large.id) == 0
    gone = ask(database, batch=batch.id)
    with database.write() as connection:
        deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)
    export_making.run(database, gone)
    assert look_at(database, gone).failure == f"there is no batch {batch.id}"


def test_the_engine_can_give_a_file_up(database: Database) -> None:
    export_id = ask(database)
    task = TASKS["export"]
    with database.write() as connection:
        task.fail(connection, export_id, "killed its process 20 times")
        task.fail(connection, export_id, "another reason")
    given_up = look_at(database, export_id)
    assert (given_up.state, given_up.failure) == ("failed", "killed its process 20 times")
    export_making.run(database, export_id)
    assert look_at(database, export_id) == given_up


def test_parts_are_cut_to_their_size() -> None:
    assert list(cut([b"ab", b"", b"cdefg", b"h"], 3)) == [b"abc", b"def", b"gh"]
    assert list(cut([b"abcdef"], 3)) == [b"abc", b"def"]
    assert list(cut([], 3)) == []


MEASURED = """
import re, sys
from pathlib import Path
from uuid import UUID
from service.db.engine import Database
from service.jobs import export_making

def peak_kb():
    # Not getrusage: its peak is never below that of the process that started this one.
    return int(re.search("VmHWM:\\\\s+([0-9]+)", Path("/proc/self/status").read_text())[1])

database = Database(sys.argv[1])
export_making.run(database, UUID(sys.argv[2]))
small = peak_kb()
export_making.run(database, UUID(sys.argv[3]))
print(small, peak_kb())
"""


def test_memory_does_not_grow_with_the_rows(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 000 points are 140 MB of columns and more of text; half as many come before."""
    monkeypatch.setattr(export_making, "PART_BYTES", 4 * 1024 * 1024)
    small = run(sqlite_database, item(axes=[speeds(100_000)]))
    large = run(sqlite_database, item(axes=[speeds(200_000)]))
    # The text formats are made in one way, and so are the typed ones.
    questions = [("csv", ""), ("arrow", ""), ("parquet", "-gpu_hours_lost")]
    for name, order_by in questions:
        first, second = (
            ask(sqlite_database, format=name, order_by=order_by, batch=batch.id)
            for batch in (small, large)
        )
        url = f"sqlite:///{sqlite_database.url.database}"
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, url, str(first), str(second)],
            capture_output=True,
            text=True,
            check=True,
        )
        before_kb, after_kb = map(int, done.stdout.split())
        made = look_at(sqlite_database, second)
        assert made.rows == 200_000
        assert made.bytes is not None
        assert made.bytes > 15_000_000
        # Less than the columns of the further points: some 70 MB.
        assert after_kb - before_kb < 60_000, (name, before_kb, after_kb)
        # pyarrow takes pandas along where it is, as for the benchmarks here: some 30 MB.
        assert after_kb < 440_000, (name, after_kb)
