"""What is left of the disk."""

from pathlib import Path

import psycopg.errors
import pytest
from sqlalchemy import text

from service.db.disk_space import free_disk_bytes
from service.db.engine import Database, OperationalError
from service.db.failures import disk_fault
from tests.full_disks import full_disk


def test_the_free_bytes_are_those_of_the_files_folder(sqlite_database: Database) -> None:
    free = free_disk_bytes(sqlite_database)
    assert free is not None
    assert free > 0


def test_nothing_is_said_of_a_folder_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    database = Database(f"sqlite:///{folder}/trainard.db")
    folder.rmdir()
    assert free_disk_bytes(database) is None


@pytest.mark.postgres
def test_nobody_looks_at_the_disk_of_postgresql(postgres_url: str) -> None:
    assert free_disk_bytes(Database(postgres_url)) is None


def test_the_databases_own_error_of_a_full_disk_is_known(database: Database) -> None:
    with pytest.raises(OperationalError) as raised, full_disk(database), database.write() as write:
        write.execute(text("UPDATE team SET name = 'lost'"))
    assert disk_fault(raised.value) == "the database's disk is full"
    with database.read() as connection:
        assert connection.scalar(text("SELECT name FROM team")) != "lost"


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (psycopg.errors.DiskFull("could not extend file"), "the database's disk is full"),
        (psycopg.errors.TooManyConnections("sorry, too many clients already"), None),
        (Exception("disk I/O error"), "the database's disk is full or broken"),
        (Exception("database is locked"), None),
    ],
)
def test_only_a_disk_that_takes_nothing_is_called_so(cause: Exception, said: str | None) -> None:
    assert disk_fault(OperationalError("INSERT", None, cause)) == said
