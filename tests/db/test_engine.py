"""Connections to a file that others open at the same moment."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.db import engine
from service.db.engine import Database


def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    # A file turns to WAL once; whoever asks meanwhile is refused without any waiting. Of bare
    # connections one trial in nine fails.
    errors: list[Exception] = []

    def touch(url: str, together: threading.Barrier) -> None:
        database = Database(url)
        together.wait()
        try:
            with database.write() as connection:
                connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS touched (once INTEGER)")
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)
        finally:
            database.close()

    for trial in range(60):
        together = threading.Barrier(4)
        url = f"sqlite:///{tmp_path}/{trial}.db"
        threads = [threading.Thread(target=touch, args=(url, together)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_file_that_stays_locked_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 100)
    monkeypatch.setattr(engine, "SQLITE_PRAGMAS", ("journal_mode=WAL",))
    holder = sqlite3.connect(tmp_path / "held.db", isolation_level=None)
    holder.execute("CREATE TABLE held (once INTEGER)")
    holder.execute("BEGIN EXCLUSIVE")
    database = Database(f"sqlite:///{tmp_path}/held.db")
    with pytest.raises(engine.OperationalError, match="locked"), database.read():
        pass
    database.close()
    holder.execute("COMMIT")
    holder.close()


def test_what_is_in_use_when_all_is_closed_is_closed_when_it_is_given_back(
    database_url: str,
) -> None:
    database = Database(database_url)
    with database.read() as connection:
        in_use: Any = connection.connection.dbapi_connection
        database.close()
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
    with pytest.raises((sqlite3.ProgrammingError, psycopg.OperationalError), match="closed"):
        in_use.execute("SELECT 1")
