"""Shares of a minute's requests, and the team's points of an hour."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import func, select

from service.db import usage
from service.db.engine import Connection, Database
from service.db.tables import scenario_batch, usage_window
from service.errors import InvalidError, OverLimitError
from service.jobs import batch_retries, batches
from service.jobs.actors import Actor
from service.jobs.batch_documents import RetryIn
from service.jobs.usage import lease_requests, seconds_left, window_start
from service.settings import Limits
from tests.jobs.batch_bodies import item, speeds

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
KEY = Actor(principal="key:a")
Use = Callable[[Connection], object]


@pytest.mark.parametrize(
    ("second", "length_s", "start", "left"),
    [
        (0.0, 60, 0, 60),
        (59.999, 60, 0, 1),
        (61.5, 60, 60, 59),
        (3_599.0, 3_600, 0, 1),
    ],
)
def test_a_window_is_a_whole_minute_or_hour(
    second: float, length_s: int, start: int, left: int
) -> None:
    now = datetime.fromtimestamp(START.timestamp() + second, UTC)
    assert window_start(now, length_s).timestamp() - START.timestamp() == start
    assert seconds_left(now, length_s) == left


@pytest.mark.parametrize(
    ("limit", "leases"),
    [
        (1, [(1, 0), (0, 0)]),
        (3, [(1, 2), (1, 1), (1, 0), (0, 0)]),
        # 20 slices of 2 and what is left over
        (41, [*((2, 41 - 2 * taken) for taken in range(1, 21)), (1, 0), (0, 0)]),
    ],
)
def test_one_process_can_lease_the_whole_limit(
    sqlite_database: Database, limit: int, leases: list[tuple[int, int]]
) -> None:
    with sqlite_database.write() as connection:
        assert [lease_requests(connection, KEY, limit, START) for _ in leases] == leases


def in_transaction(database: Database, use_case: Use) -> object:
    with database.write() as connection:
        return use_case(connection)


def submitted(database: Database, actor: Actor, num_points: int, limits: Limits) -> UUID:
    with database.write() as connection:
        return batches.submit(connection, actor, body(num_points), limits).id


def body(num_points: int) -> dict[str, object]:
    return {"name": "x", "items": [item(axes=[speeds(num_points)])]}


def used_points(database: Database) -> int:
    with database.read() as connection:
        used = select(usage_window.c.used).where(usage_window.c.policy == "points")
        return sum(connection.execute(used).scalars())


def test_points_are_counted_for_the_team_whoever_submits(database: Database) -> None:
    limits = Limits(points_per_hour=100)
    submitted(database, KEY, 60, limits)
    submitted(database, Actor(principal="key:b"), 30, limits)
    with pytest.raises(OverLimitError, match="11 points, but 10 are left of the 100") as refused:
        submitted(database, KEY, 11, limits)
    assert refused.value.problem == "quota-exceeded"
    assert 1 <= refused.value.retry_after_s <= 3_600
    submitted(database, KEY, 10, limits)
    assert used_points(database) == 100


def test_of_batches_at_the_same_time_only_those_that_fit_are_taken(database: Database) -> None:
    limits = Limits(points_per_hour=100)

    def attempt(number: int) -> bool:
        try:
            submitted(database, Actor(principal=f"key:{number}"), 30, limits)
        except OverLimitError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(attempt, range(16)))
    assert taken.count(True) == 3
    assert used_points(database) == 90


def test_a_refused_batch_leaves_nothing(database: Database) -> None:
    limits = Limits(points_per_hour=100, unfinished_batches=3)
    with pytest.raises(InvalidError):
        in_transaction(database, lambda c: batches.submit(c, KEY, {"name": "x"}, limits))
    with database.engine.connect() as connection, connection.begin() as transaction:
        batches.submit(connection, KEY, body(100), limits)
        transaction.rollback()
    assert used_points(database) == 0
    submitted(database, KEY, 90, limits)
    with pytest.raises(OverLimitError):
        submitted(database, KEY, 20, limits)
    with database.read() as connection:
        counted = connection.execute(select(func.count()).select_from(scenario_batch)).scalar_one()
    assert counted == 1
    assert used_points(database) == 90


def test_a_batch_over_a_whole_hours_quota_is_invalid(sqlite_database: Database) -> None:
    limits = Limits(points_per_hour=100)
    message = "101 points, but the team may compute 100 points in an hour"
    with pytest.raises(InvalidError, match=message) as refused:
        submitted(sqlite_database, KEY, 101, limits)
    assert [fault.code for fault in refused.value.errors] == ["over_quota"]
    with sqlite_database.read() as connection, pytest.raises(InvalidError, match=message):
        batches.check(connection, KEY, body(101), limits)


def test_a_check_says_what_is_left_and_takes_nothing(sqlite_database: Database) -> None:
    limits = Limits(points_per_hour=100)
    submitted(sqlite_database, KEY, 30, limits)
    with sqlite_database.read() as connection:
        plans = [
            batches.check(connection, actor, body(50), limits) for actor in (KEY, KEY, Actor())
        ]
        unlimited = batches.check(connection, KEY, body(50), Limits(points_per_hour=0))
    assert [plan.points_left for plan in plans] == [70, 70, None]
    assert unlimited.points_left is None
    assert used_points(sqlite_database) == 30


@pytest.mark.parametrize(
    ("actor", "limits"),
    [(Actor(), Limits(points_per_hour=10)), (KEY, Limits(points_per_hour=0))],
)
def test_nothing_is_counted_without_keys_or_without_a_quota(
    sqlite_database: Database, actor: Actor, limits: Limits
) -> None:
    submitted(sqlite_database, actor, 50, limits)
    assert used_points(sqlite_database) == 0


def test_a_retry_is_charged_for_the_points_it_computes_again(sqlite_database: Database) -> None:
    limits = Limits(points_per_hour=100)
    first = submitted(sqlite_database, KEY, 60, limits)
    in_transaction(sqlite_database, lambda c: batches.cancel(c, KEY, first))
    with pytest.raises(OverLimitError, match="60 points, but 40 are left"):
        in_transaction(
            sqlite_database, lambda c: batch_retries.retry(c, KEY, first, RetryIn(), limits)
        )
    wider = Limits(points_per_hour=120)
    in_transaction(sqlite_database, lambda c: batch_retries.retry(c, KEY, first, RetryIn(), wider))
    assert used_points(sqlite_database) == 120


def test_whoever_begins_a_window_deletes_those_long_past(sqlite_database: Database) -> None:
    old = usage.Window(team_id=KEY.team_id, principal="key:z", policy="requests", start=START)
    in_transaction(sqlite_database, lambda c: usage.add_within(c, old, amount=1, limit=10))
    submitted(sqlite_database, KEY, 1, Limits())
    with sqlite_database.read() as connection:
        assert usage.used_in(connection, old) == 0
    assert used_points(sqlite_database) == 1
