"""How the engine is set up: each setting stands for something that was lost without it."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from service.db.engine import Database
from service.db.job_engine import step_engine, system_engine
from service.db.process_locks import LockLostError, SessionLock
from service.jobs import batch_runs
from service.jobs.engine import MAX_THREADS, Engine, unique_name
from service.jobs.runtime import Runtime
from tests.jobs.engine_processes import submit_grid, wait_for_end

SERVICE = Path(__file__).parents[2] / "service"


@pytest.mark.postgres
def test_a_stopped_process_frees_its_transaction_and_a_waiting_one_is_not_cancelled(
    postgres_url: str,
) -> None:
    database = Database(postgres_url, session_name="a worker")
    for engine in (step_engine(database), system_engine(database)):
        with engine.connect() as connection:
            found = {
                name: connection.scalar(text(f"SHOW {name}"))
                for name in (
                    "idle_in_transaction_session_timeout",
                    "statement_timeout",
                    "application_name",
                )
            }
        engine.dispose()
        assert found == {
            "idle_in_transaction_session_timeout": "10s",
            # It would cancel the healthy process that waits for the stopped one.
            "statement_timeout": "0",
            "application_name": "a worker",
        }
    database.close()


@pytest.mark.postgres
def test_chunks_are_stored_in_read_committed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's default is SERIALIZABLE, in which chunks of one batch fail each other."""
    database = Database(postgres_url, session_name=unique_name())
    batch_id = submit_grid(database, 100)
    seen: list[str] = []

    original = batch_runs.store_chunk

    def look(connection: Connection, *arguments: Any, **named: Any) -> None:
        seen.append(str(connection.scalar(text("SHOW transaction_isolation"))))
        original(connection, *arguments, **named)

    monkeypatch.setattr(batch_runs, "store_chunk", look)
    runtime = Runtime(database, role="worker", processes=1)
    runtime.start()
    wait_for_end(database, batch_id)
    runtime.stop()
    database.close()
    assert seen == ["read committed"]


def test_the_engine_is_bounded_versioned_and_named(sqlite_database: Database) -> None:
    config = Engine(sqlite_database)._config()
    assert config["executor_id"] == "local"
    assert config["application_version"] == "1"
    assert config["max_executor_threads"] == MAX_THREADS == 32


@pytest.mark.postgres
def test_names_on_postgresql_are_unique_and_fit_in(postgres_url: str) -> None:
    names = {unique_name() for _ in range(100)}
    assert len(names) == 100
    # Longer ones are cut off, and two processes would be one.
    assert max(map(len, names)) <= 63
    database = Database(postgres_url, session_name="one")
    assert Engine(database).name == "one"
    database.close()


@pytest.mark.postgres
def test_a_lock_tells_who_lives_and_notices_its_own_loss(postgres_url: str) -> None:
    one, two = (Database(postgres_url, session_name=name) for name in ("one", "two"))
    mine, other = SessionLock(one, "one"), SessionLock(two, "two")
    assert not mine.is_free("two")
    assert mine.is_free("three")
    mine.end_sessions("two")
    with pytest.raises(LockLostError):
        other.check()
    assert mine.is_free("two")
    mine.check()
    for opened in (mine, other, one, two):
        opened.close()


def test_nothing_ever_resets_the_engines_database() -> None:
    """It drops the whole database on PostgreSQL, and our tables in a shared file."""
    assert [
        path for path in SERVICE.rglob("*.py") if "reset_system_database" in path.read_text()
    ] == []
