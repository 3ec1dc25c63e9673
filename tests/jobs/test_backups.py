"""Where a copy may not be written, a disk that is full, and what killed runs leave."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.db import migrate
from service.db.backup_parts import part_beside
from service.db.engine import Database
from service.errors import ConflictError, InvalidError, UnavailableError
from service.jobs.backups import back_up
from service.jobs.restores import restore

ROOT = Path(__file__).parents[2]
# Enough for the first pages of a copy only
FULL_AT_BYTES = 65_536


def copy(
    database: Database, file: Path, progress: Callable[[int, int], None] = lambda *_: None
) -> None:
    back_up(database, file, overwrite=True, progress=progress)


def file_of(database: Database) -> Path:
    return Path(str(database.url.database))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """With its WAL and shared memory beside it, as while it is served."""
    with sqlite_database.read() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM team").scalar_one()
    return sqlite_database


def test_the_database_itself_is_never_replaced(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(database)
    queue = tmp_path / "trainard-jobs.db"
    for path in (queue, queue.with_suffix(".lock")):
        path.touch()
    (tmp_path / "link.db").symlink_to(file)
    (tmp_path / "hard.db").hardlink_to(file)
    (tmp_path / "hard-wal").hardlink_to(f"{file}-wal")
    (tmp_path / "there").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    before, node = names(tmp_path), file.stat().st_ino
    for name in (
        str(file),
        file.name,
        f"../{tmp_path.name}/{file.name}",
        f"there/{file.name}",
        "link.db",
        "hard.db",
        "hard-wal",
        "trainard.db-wal",
        "trainard.db-shm",
        # Not there now
        "trainard.db-journal",
        "trainard-jobs.db",
        "trainard-jobs.db-wal",
        "trainard-jobs.lock",
    ):
        with pytest.raises(InvalidError, match="of the database itself"):
            copy(database, Path(name))
    assert (names(tmp_path), file.stat().st_ino) == (before, node)


def test_the_files_of_a_database_behind_a_link_are_known(database: Database) -> None:
    file = file_of(database)
    linked = file.parent / "elsewhere" / "linked.db"
    linked.parent.mkdir()
    linked.symlink_to(file)
    behind = Database(f"sqlite:///{linked}")
    for place in (file, linked, Path(f"{file}-wal"), linked.with_name("linked-jobs.db")):
        with pytest.raises(InvalidError, match="of the database itself"):
            copy(behind, place)
    behind.close()
    assert names(linked.parent) == {"linked.db"}


def test_a_name_that_becomes_the_database_meanwhile_is_not_replaced(
    database: Database, tmp_path: Path
) -> None:
    target = tmp_path / "copy.db"

    def turn(_left: int, _total: int) -> None:
        target.unlink(missing_ok=True)
        target.symlink_to(file_of(database))

    with pytest.raises(InvalidError, match="of the database itself"):
        copy(database, target, turn)
    assert target.is_symlink()
    assert list(tmp_path.glob(".*")) == []
    with database.read() as connection:
        actions = connection.exec_driver_sql("SELECT action FROM audit_event").all()
    assert actions == []


def test_only_a_regular_file_is_replaced(database: Database, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "other.db").write_text("another's")
    (tmp_path / "link").symlink_to("other.db")
    (tmp_path / "dangling").symlink_to("absent.db")
    (tmp_path / "used.db").write_text("in use")
    (tmp_path / "used.db-wal").touch()
    before = names(tmp_path)
    for name, said in (
        ("pipe", "pipe is no regular file"),
        ("/dev/null", "/dev/null is no regular file"),
        ("link", "is a link to other.db: name the file itself"),
        ("dangling", "is a link to absent.db"),
        ("used.db", "has used.db-wal beside it"),
    ):
        with pytest.raises(InvalidError, match=said):
            copy(database, tmp_path / name)
    assert names(tmp_path) == before
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "other.db").read_text() == "another's"
    assert (tmp_path / "used.db").read_text() == "in use"
    copy(database, tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes()[:15] == b"SQLite format 3"


def test_a_folder_that_is_not_there_is_named(database: Database, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"/absent: No such file or directory$"):
        copy(database, tmp_path / "absent" / "copy.db")


def program(*arguments: str, file_size_bytes: int) -> subprocess.CompletedProcess[str]:
    """Run `trainard` on a disk that takes files of this size: the system refuses the rest."""
    return subprocess.run(
        [sys.executable, "-m", "service", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_size_bytes,) * 2),
        capture_output=True,
        text=True,
        check=False,
    )


def sentence(framed: str) -> str:
    return " ".join(framed.replace("│", " ").split())


def test_a_full_disk_is_one_sentence_with_its_folder(database: Database, tmp_path: Path) -> None:
    source = file_of(database)
    (tmp_path / "full").mkdir()
    place = tmp_path / "full" / "copy.db"
    url = f"sqlite:///{source}"
    said = program("backup", str(place), "--database-url", url, file_size_bytes=FULL_AT_BYTES)
    assert (said.returncode, names(place.parent)) == (1, set())
    assert f" {place.parent}: disk I/O error" in sentence(said.stderr)
    assert "Traceback" not in said.stderr

    # There is room for the copy, but not for the tables that it lacks.
    migrate.upgrade(f"sqlite:///{tmp_path / 'old.db'}", "0002")
    old = Database(f"sqlite:///{tmp_path / 'old.db'}")
    copy(old, tmp_path / "copy.db")
    old.close()
    target = f"sqlite:///{place.parent / 'restored.db'}"
    size = (tmp_path / "copy.db").stat().st_size
    for taken, reason in ((FULL_AT_BYTES, "File too large"), (size, "disk I/O error")):
        said = program(
            "restore", str(tmp_path / "copy.db"), "--database-url", target, file_size_bytes=taken
        )
        assert (said.returncode, names(place.parent)) == (1, {"restored-jobs.lock"})
        assert f" {place.parent}: {reason}. Nothing has changed." in sentence(said.stderr)
        assert "Traceback" not in said.stderr


def test_what_dead_runs_left_is_removed_and_living_runs_go_on(tmp_path: Path) -> None:
    file = tmp_path / "copy.db"
    part = ".copy.db.abcd_123.part"
    dead = {f"{part}{suffix}" for suffix in ("", "-wal", "-shm", "-journal", "-lock")}
    # Without its lock; a lock alone; of other places
    dead |= {".copy.db.00000000.part", ".copy.db.11111111.part-lock"}
    others = {".copy.abcd_123.part", ".copy.db.abcd_123.partly", "copy.db.abcd_123.part"}
    for name in dead | others:
        (tmp_path / name).touch()
    with ExitStack() as living:
        first = living.enter_context(part_beside(file))
        assert names(tmp_path) == others | {first.name, f"{first.name}-lock"}
        Path(f"{first}-wal").touch()
        second = living.enter_context(part_beside(file))
        assert second != first
        assert names(tmp_path) >= {first.name, f"{first.name}-wal", second.name}
    assert names(tmp_path) == others


def test_restoring_behind_a_link_replaces_the_real_file(database: Database, tmp_path: Path) -> None:
    copy(database, tmp_path / "copy.db")
    database.close()
    real = file_of(database)
    node = real.stat().st_ino
    linked = tmp_path / "elsewhere" / "linked.db"
    linked.parent.mkdir()
    linked.symlink_to("../trainard.db")
    for queue in (linked.with_name("linked-jobs.db"), tmp_path / "trainard-jobs.db"):
        queue.touch()
    done = restore(f"sqlite:///{linked}", tmp_path / "copy.db")
    assert linked.readlink() == Path("../trainard.db")
    assert (real.stat().st_ino == node, real.is_symlink()) == (False, False)
    assert done.replaced is not None
    assert (done.replaced.parent, done.replaced.stat().st_ino) == (tmp_path, node)
    # What computed under either name would go on from the queue of the old rows.
    assert names(linked.parent) == {"linked.db", "linked-jobs.lock"}
    assert not (tmp_path / "trainard-jobs.db").exists()


def test_a_service_on_the_real_file_is_in_the_way_of_its_link(
    database: Database, tmp_path: Path
) -> None:
    copy(database, tmp_path / "copy.db")
    linked = tmp_path / "linked.db"
    linked.symlink_to(file_of(database))
    with pytest.raises(ConflictError, match="open: stop it first"):
        restore(f"sqlite:///{linked}", tmp_path / "copy.db")
    assert linked.is_symlink()
