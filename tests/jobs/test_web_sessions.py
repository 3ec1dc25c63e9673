"""Sessions as rows: swept when their time has come, and not brought back by a copy."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from service.db.engine import Database
from service.db.tables import web_session
from service.errors import UnauthenticatedError
from service.jobs.backups import back_up
from service.jobs.key_checks import actor_of_key
from service.jobs.restores import restore
from service.jobs.runtime import Runtime
from service.jobs.web_sessions import actor_of_session, forget_expired, open_session
from service.settings import Settings, read_settings
from tests.api.access_keys import key_of


def opened(database: Database, hours: int = 12) -> str:
    """A session of a new key; its token."""
    key = key_of(database, "viewer")["Authorization"].removeprefix("Bearer ")
    now = datetime.now(UTC)
    with database.write() as connection:
        actor = actor_of_key(connection, key, now)
        return open_session(connection, actor, hours=hours, now=now).token


def num_sessions(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(web_session)).scalar_one()


def test_those_whose_time_has_come_are_deleted(database: Database) -> None:
    tokens = [opened(database, hours) for hours in (1, 2)]
    now = datetime.now(UTC)
    assert forget_expired(database, now) == 0
    assert forget_expired(database, now + timedelta(minutes=90)) == 1
    assert num_sessions(database) == 1
    with database.read() as connection:
        with pytest.raises(UnauthenticatedError):
            actor_of_session(connection, tokens[0], now)
        actor, expires_at = actor_of_session(connection, tokens[1], now)
    assert (actor.role, actor.is_local) == ("viewer", False)
    assert now + timedelta(minutes=119) < expires_at <= now + timedelta(hours=2)


def test_the_service_deletes_them_by_itself(sqlite_database: Database) -> None:
    opened(sqlite_database)
    with sqlite_database.write() as connection:
        past = datetime.now(UTC) - timedelta(seconds=1)
        connection.execute(update(web_session).values(expires_at=past))
    runtime = Runtime(sqlite_database, processes=1, settings=Settings())
    runtime._remove_old()
    assert num_sessions(sqlite_database) == 0


def test_a_copy_that_is_put_back_signs_everybody_out(
    sqlite_database: Database, tmp_path: Path
) -> None:
    token = opened(sqlite_database)
    copy = tmp_path / "copy.db"
    back_up(sqlite_database, copy, progress=lambda _left, _total: None)
    url = sqlite_database.url.render_as_string()
    sqlite_database.close()
    restore(url, copy)
    again = Database(url)
    assert num_sessions(again) == 0
    with again.read() as connection, pytest.raises(UnauthenticatedError):
        actor_of_session(connection, token, datetime.now(UTC))
    again.close()


@pytest.mark.parametrize("text", ["0", "721", "-1", "1.5", "a"])
def test_the_hours_of_a_session_are_bounded(text: str) -> None:
    with pytest.raises(ValueError, match="TRAINARD_SESSION_HOURS"):
        read_settings({"TRAINARD_SESSION_HOURS": text})
    assert read_settings({"TRAINARD_SESSION_HOURS": "720"}).session_hours == 720
