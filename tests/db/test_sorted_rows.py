"""Sorted rows against a plain sort of all rows in Python."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from service.db.encoded_blocks import BLOCK_POINTS
from service.db.engine import Database
from service.db.results import BatchRef, Filter, Order, scan
from service.db.sorted_rows import (
    SortedPlaces,
    TooManyRowsError,
    fetch_places,
    sorted_places,
)

Store = Callable[..., UUID]


def columns(num_points: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    hours = np.round(rng.random(num_points) * 20)
    hours[::7] = np.nan
    return {
        "item": np.zeros(num_points, dtype=np.int64),
        "failure": (rng.random(num_points) < 0.1).astype(np.int8),
        "gpu_hours_lost": hours,
        "kind": rng.integers(-1, 3, num_points).astype(np.int8),
    }


ORDERS = [
    [Order(column="gpu_hours_lost", descending=True)],
    [Order(column="kind"), Order(column="gpu_hours_lost"), Order(column="point", descending=True)],
    [Order(column="absent")],
]


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_is_that_of_the_list(
    database: Database, store: Store, order: list[Order]
) -> None:
    ids = [store(columns(BLOCK_POINTS + 500, 1)), store(columns(300, 2))]
    refs = [BatchRef(batch_id=batch_id) for batch_id in reversed(ids)]
    filters = [Filter(column="gpu_hours_lost", operator="lt", value=3)]
    with database.read() as connection:
        places = sorted_places(connection, refs, filters, order, limit=10_000)
        listed = scan(connection, refs, filters, order, limit=10_000)
    found = [
        (refs[number].batch_id, point)
        for number, point in zip(places.batch.tolist(), places.point.tolist(), strict=True)
    ]
    assert len(found) > 500
    assert found == [(ref.batch_id, ref.point) for ref in listed]


def test_rows_come_in_the_order_of_their_places(database: Database, store: Store) -> None:
    first = columns(2 * BLOCK_POINTS + 1, 1)
    second = columns(10, 2) | {"num_gpus": np.arange(10) + 100}
    refs = [BatchRef(batch_id=store(first)), BatchRef(batch_id=store(second))]
    places = SortedPlaces(
        batch=np.array([1, 0, 0, 1, 0], dtype=np.int32),
        point=np.array([3, 2 * BLOCK_POINTS, 5, 0, BLOCK_POINTS], dtype=np.int64),
    )
    names = ("gpu_hours_lost", "kind", "item", "num_gpus", "absent")
    with database.read() as connection:
        table = fetch_places(connection, refs, places, names)
    sources = [second, first, first, second, first]
    for name in ("gpu_hours_lost", "kind"):
        expected = [
            source[name][point]
            for source, point in zip(sources, places.point.tolist(), strict=True)
        ]
        assert np.array_equal(table[name], np.array(expected), equal_nan=name == "gpu_hours_lost")
        assert table[name].dtype == first[name].dtype
    assert table["item"].dtype == np.int64
    # Whole numbers that one batch does not have are null there, not -1.
    assert np.array_equal(table["num_gpus"], [103.0, np.nan, np.nan, 100.0, np.nan], equal_nan=True)
    assert np.isnan(table["absent"]).all()


def test_what_all_points_of_a_batch_have_is_filled_in(database: Database, store: Store) -> None:
    plain = {"item": np.zeros(3, dtype=np.int64), "failure": np.zeros(3, dtype=np.int8)}
    stored = plain | {"gpus_per_node": np.array([2, 4, 16])}
    refs = [
        BatchRef(batch_id=store(plain), constants={"gpus_per_node": 8.0, "unasked": 1.0}),
        BatchRef(batch_id=store(stored)),
    ]
    order = [Order(column="gpus_per_node", descending=True)]
    few = [Filter(column="gpus_per_node", operator="le", value=8)]
    with database.read() as connection:
        places = sorted_places(connection, refs, few, order, limit=10)
        table = fetch_places(connection, refs, places, ["gpus_per_node"])
        listed = scan(connection, refs, few, order, limit=10)
    assert table["gpus_per_node"].tolist() == [8, 8, 8, 4, 2]
    assert [ref.cursor.values for ref in listed] == [(8,), (8,), (8,), (4,), (2,)]


def test_codes_that_a_batch_does_not_have_are_null(database: Database, store: Store) -> None:
    plain = {"item": np.zeros(2, dtype=np.int64), "failure": np.zeros(2, dtype=np.int8)}
    refs = [
        BatchRef(batch_id=store(plain)),
        BatchRef(batch_id=store(plain | {"kind": np.array([1, 0], dtype=np.int8)})),
    ]
    places = SortedPlaces(
        batch=np.array([0, 1], dtype=np.int32), point=np.array([0, 0], dtype=np.int64)
    )
    with database.read() as connection:
        assert fetch_places(connection, refs, places, ["kind"])["kind"].tolist() == [-1, 1]


def test_more_rows_than_the_limit_are_refused(database: Database, store: Store) -> None:
    ref = BatchRef(batch_id=store(columns(100, 1)))
    computed = Filter(column="failure", operator="ge", value=0)
    order = [Order(column="gpu_hours_lost")]
    with database.read() as connection:
        assert len(sorted_places(connection, [ref], [computed], order, limit=100).point) == 100
        with pytest.raises(TooManyRowsError):
            sorted_places(connection, [ref], [computed], order, limit=99)
        none = Filter(column="gpu_hours_lost", operator="lt", value=-1)
        assert len(sorted_places(connection, [ref], [none], order, limit=0).point) == 0
