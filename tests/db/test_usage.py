"""Counting towards a limit: exact, whoever counts at the same time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from service.db import usage
from service.db.engine import Database
from service.db.tables import usage_window
from service.db.usage import Window
from service.jobs.actors import DEFAULT_TEAM_ID

START = datetime(2026, 11, 29, 12, tzinfo=UTC)


def window(principal: str = "key:a", start: datetime = START) -> Window:
    return Window(team_id=DEFAULT_TEAM_ID, principal=principal, policy="requests", start=start)


def add(database: Database, used: Window, amount: int, limit: int) -> int | None:
    with database.write() as connection:
        return usage.add_within(connection, used, amount=amount, limit=limit)


def test_what_does_not_fit_is_not_counted(database: Database) -> None:
    steps = [(6, 6), (5, None), (4, 10), (1, None)]
    assert [add(database, window(), amount, 10) for amount, _ in steps] == [
        used for _, used in steps
    ]
    with database.read() as connection:
        assert usage.used_in(connection, window()) == 10


def test_more_than_the_limit_is_not_counted_in_a_new_window_either(database: Database) -> None:
    assert add(database, window(), 11, 10) is None
    with database.read() as connection:
        assert usage.used_in(connection, window()) == 0


def test_each_principal_and_each_window_counts_for_itself(database: Database) -> None:
    later = window(start=START + timedelta(minutes=1))
    assert add(database, window(), 10, 10) == 10
    assert add(database, window("key:b"), 4, 10) == 4
    assert add(database, later, 3, 10) == 3


def test_what_is_rolled_back_is_not_counted(database: Database) -> None:
    with database.engine.connect() as connection, connection.begin() as transaction:
        assert usage.add_within(connection, window(), amount=10, limit=10) == 10
        transaction.rollback()
    assert add(database, window(), 10, 10) == 10


def test_writers_at_the_same_time_never_pass_the_limit(database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: add(database, window(), 3, 40), range(64)))
    assert sorted(used for used in found if used is not None) == [*range(3, 40, 3)]


def test_old_windows_are_forgotten(database: Database) -> None:
    for hours in range(4):
        add(database, window(start=START + timedelta(hours=hours)), 1, 10)
    with database.write() as connection:
        usage.forget_before(connection, START + timedelta(hours=2))
        left = connection.execute(select(usage_window.c.window_start)).scalars().all()
    assert sorted(left) == [START + timedelta(hours=2), START + timedelta(hours=3)]
