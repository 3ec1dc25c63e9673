"""Rows and locks of dated rates, on both databases."""

import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from service.db import rates
from service.db.engine import Database
from service.db.rates import RateKey
from service.jobs.actors import DEFAULT_TEAM_ID as TEAM

KEY = RateKey(gpu_type="H100", currency="EUR", cost_center="research")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def row(rate_id: UUID, center: str | None, amount: str = "2.10") -> dict[str, Any]:
    return {
        "id": rate_id,
        "team_id": TEAM,
        "created_by": "x",
        "gpu_type": "H100",
        "cost_center": center,
        "currency": "EUR",
        "amount": Decimal(amount),
        "valid_from": date(2026, 1, 1),
        "valid_until": None,
        "source": "memo",
        "recorded_at": NOW,
        "recorded_by": "x",
    }


def test_amounts_keep_all_their_digits(database: Database) -> None:
    for amount in ("2.10", "0.000000000001", "999999999999.999999999999", "1E+2"):
        rate_id = uuid4()
        with database.write() as connection:
            rates.insert_rates(connection, [row(rate_id, str(rate_id), amount)])
            stored = rates.get_rate(connection, TEAM, rate_id)
        assert stored is not None
        assert format(stored.amount, "f") == format(Decimal(amount), "f")


def test_known_rates_put_the_cost_center_first(database: Database) -> None:
    general, exact, other = uuid4(), uuid4(), uuid4()
    with database.write() as connection:
        rates.insert_rates(
            connection, [row(general, None), row(exact, "research"), row(other, "vision")]
        )
        known = rates.list_known(connection, TEAM, KEY, as_of=None)
        of_none = rates.list_of_key(
            connection, TEAM, RateKey(gpu_type="H100", currency="EUR", cost_center=None)
        )
    assert [found.id for found in known] == [exact, general]
    assert [found.id for found in of_none] == [general]


def test_a_rate_is_superseded_once(database: Database) -> None:
    old, new = uuid4(), uuid4()
    with database.write() as connection:
        rates.insert_rates(connection, [row(old, None), row(new, None)])
        assert rates.supersede(connection, old, version=1, by=new, moment=NOW)
        assert not rates.supersede(connection, old, version=1, by=new, moment=NOW)
        assert not rates.supersede(connection, old, version=2, by=new, moment=NOW)
        stored = rates.get_rate(connection, TEAM, old)
    assert stored is not None
    assert (stored.superseded_by, stored.superseded_at, stored.version) == (new, NOW, 2)


def test_a_lock_holds_others_back_until_the_transaction_ends(database: Database) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        with database.write() as connection:
            rates.lock_keys(connection, TEAM, [KEY])
            order.append("second")

    thread = threading.Thread(target=second)
    with database.write() as connection:
        rates.lock_keys(connection, TEAM, [KEY, KEY])
        thread.start()
        waiting.wait()
        thread.join(timeout=0.3)
        assert thread.is_alive()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    with database.write() as connection:
        rates.lock_keys(connection, TEAM, [KEY])


def test_two_locks_in_crossed_orders_do_not_wait_for_ever(database: Database) -> None:
    keys = [
        RateKey(gpu_type=f"G{number}", currency="EUR", cost_center=None) for number in range(20)
    ]

    def lock(order: list[RateKey]) -> None:
        with database.write() as connection:
            rates.lock_keys(connection, TEAM, order)
            done.append(len(order))

    done: list[int] = []
    threads = [
        threading.Thread(target=lock, args=(keys if number % 2 else keys[::-1],))
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [20] * 6
