"""Blocks are cut by point number, written in bulk and read back whole."""

import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import func, select

from service.db.blocks import constant_columns, read_columns, zone_maps
from service.db.encoded_blocks import BLOCK_POINTS, encode_columns
from service.db.engine import Database
from service.db.tables import result_block

Store = Callable[..., UUID]


def columns(num_points: int, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    lost = random.normal(size=num_points)
    lost[::7] = np.nan
    return {
        "failure": np.isnan(lost).astype(np.int8),
        "num_gpus": random.integers(1, 9, size=num_points),
        "gpu_hours_lost": lost,
        "flag": random.integers(0, 2, size=num_points).astype(np.bool_),
    }


def test_columns_come_back_as_they_were(database: Database, store: Store) -> None:
    written = columns(2 * BLOCK_POINTS + 17)
    batch_id = store(written)
    with database.read() as connection:
        found = read_columns(connection, batch_id, [*written, "point"])
    for name, values in written.items():
        assert found[name].dtype == values.dtype
        assert found[name].tobytes() == values.tobytes()
    assert found["point"].tolist() == list(range(2 * BLOCK_POINTS + 17))


def test_chunks_in_any_order_make_the_same_batch(database: Database, store: Store) -> None:
    first, second = columns(2 * BLOCK_POINTS, 1), columns(100, 2)
    batch_id = store(second, first_block=2)
    store(first, batch_id, 0)
    with database.read() as connection:
        found = read_columns(connection, batch_id, ["num_gpus"])["num_gpus"]
        assert found.tolist() == [*first["num_gpus"], *second["num_gpus"]]
        numbers = select(result_block.c.block, func.count()).group_by(result_block.c.block)
        assert sorted(connection.execute(numbers).all()) == [(0, 4), (1, 4), (2, 4)]


def test_chosen_blocks_and_absent_columns(database: Database, store: Store) -> None:
    batch_id = store(columns(2 * BLOCK_POINTS + 5))
    with database.read() as connection:
        found = read_columns(connection, batch_id, ["point", "unknown"], [2, 77])
        nothing = read_columns(connection, batch_id, ["num_gpus"], [77])
    assert found["point"].tolist() == [20_000, 20_001, 20_002, 20_003, 20_004]
    assert np.isnan(found["unknown"]).tolist() == [True] * 5
    assert nothing["num_gpus"].tolist() == []


def test_zone_maps_tell_each_block(database: Database, store: Store) -> None:
    written = columns(BLOCK_POINTS + 3)
    batch_id = store(written)
    with database.read() as connection:
        rows = zone_maps(connection, [batch_id], ["gpu_hours_lost"])
    for row, part in zip(rows, np.split(written["gpu_hours_lost"], [BLOCK_POINTS]), strict=True):
        assert row.num_rows == len(part)
        assert row.num_nulls == np.count_nonzero(np.isnan(part))
        assert (row.minimum, row.maximum) == (np.nanmin(part), np.nanmax(part))


def test_columns_of_one_value_are_found_without_reading_them(
    database: Database, store: Store
) -> None:
    size = 2 * BLOCK_POINTS
    per_block = np.repeat([1.0, 2.0], BLOCK_POINTS)
    last_null = np.append(np.full(size - 1, 3.0), np.nan)
    batch_id = store(
        {
            "failure": np.zeros(size, dtype=np.int8),
            "same": np.full(size, -0.25),
            "null": np.full(size, np.nan),
            "per_block": per_block,
            "last_null": last_null,
            "no_code": np.full(size, -1, dtype=np.int8),
        }
    )
    names = ["failure", "same", "null", "per_block", "last_null", "no_code", "unknown"]
    with database.read() as connection:
        found = constant_columns(connection, batch_id, names, size)
        # Points that are not stored are null, so that nothing else is the same everywhere.
        of_more = constant_columns(connection, batch_id, names, size + 1)
    nulls = {"null", "no_code", "unknown"}
    assert set(found) == {"failure", "same"} | nulls
    assert (found["failure"], found["same"]) == (0.0, -0.25)
    assert all(np.isnan(found[name]) for name in nulls)
    assert set(of_more) == nulls


def test_a_column_of_one_value_takes_few_bytes(database: Database, store: Store) -> None:
    failure = np.zeros(BLOCK_POINTS, dtype=np.int8)
    batch_id = store({"failure": failure, "null": np.full(BLOCK_POINTS, np.nan)})
    with database.read() as connection:
        sizes = (
            connection.execute(
                select(func.length(result_block.c.data)).where(result_block.c.batch_id == batch_id)
            )
            .scalars()
            .all()
        )
    assert sorted(sizes) == [1, 8]


def test_a_block_is_written_once(database: Database, store: Store) -> None:
    batch_id = store(columns(3))
    with pytest.raises(Exception, match=r"(?i)unique"):
        store(columns(3), batch_id)
    with database.read() as connection:
        assert len(read_columns(connection, batch_id, ["failure"])["failure"]) == 3


def test_encoded_blocks_travel_between_processes() -> None:
    encoded = encode_columns(columns(BLOCK_POINTS + 1))
    assert pickle.loads(pickle.dumps(encoded)) == encoded  # noqa: S301 - our own bytes
    assert [part.block for part in encoded] == [0] * 4 + [1] * 4


def test_no_points_are_no_blocks(database: Database, store: Store) -> None:
    batch_id = store({"failure": np.empty(0, dtype=np.int8)})
    with database.read() as connection:
        assert zone_maps(connection, [batch_id], ["failure"]) == []


def test_unequal_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="equal lengths"):
        encode_columns({"a": np.zeros(2), "b": np.zeros(3)})
