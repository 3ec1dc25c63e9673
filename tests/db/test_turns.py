"""Writers of one process, who wait for each other and not for SQLite's pauses."""

import pytest

from service.db import engine
from service.db.engine import Database, OperationalError


def test_waiting_for_a_turn_has_an_end(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 50)
    with (
        sqlite_database.turn(),
        pytest.raises(OperationalError, match="database is locked"),
        sqlite_database.write(),
    ):
        raise AssertionError
    with sqlite_database.write():
        assert sqlite_database.is_sqlite


@pytest.mark.postgres
def test_postgresql_lets_them_write_at_once(postgres_url: str) -> None:
    database = Database(postgres_url)
    with database.write(), database.turn(), database.write():
        assert not database.is_sqlite
    database.close()
