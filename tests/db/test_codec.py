"""Columns come back bit for bit, and their zone maps are those of the values."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from service.db.codec import as_floats, pack, unpack

INT64 = np.iinfo(np.int64)
NAN_WITH_PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_DEAD_BEEF))[0]

CASES: dict[str, NDArray[Any]] = {
    "nan payload, signed zeros, subnormal, infinities": np.array(
        [NAN_WITH_PAYLOAD, np.nan, -0.0, 0.0, 5e-324, np.inf, -np.inf, np.finfo(float).max]
    ),
    "all negative zero": np.full(3, -0.0),
    "one nan with payload": np.array([NAN_WITH_PAYLOAD]),
    "int64 extremes": np.array([INT64.min, INT64.max, 0, -1, 2**53 + 1]),
    "constant int64 extreme": np.full(5, INT64.max),
    "int8": np.array([-1, 0, 127, -128], dtype=np.int8),
    "constant int8": np.zeros(9, dtype=np.int8),
    "bool": np.array([True, False, True]),
    "constant bool": np.ones(4, dtype=np.bool_),
    "big-endian": np.array([1.5, -2.5], dtype=">f8"),
    "strided": np.arange(20.0)[::3],
}


def round_trip(values: NDArray[Any]) -> NDArray[Any]:
    packed = pack(values)
    return unpack(packed.kind, packed.num_rows, packed.data)


@pytest.mark.parametrize("name", CASES)
def test_round_trip_is_bit_exact(name: str) -> None:
    values = CASES[name]
    little = values.astype(values.dtype.newbyteorder("<"))
    assert round_trip(values).dtype == little.dtype
    assert round_trip(values).tobytes() == little.tobytes()


@given(
    hnp.arrays(
        dtype=st.sampled_from([np.float64, np.int64, np.int8, np.bool_]),
        shape=st.integers(1, 300),
    )
)
def test_any_column_round_trips(values: NDArray[Any]) -> None:
    assert round_trip(values).tobytes() == values.tobytes()


@given(hnp.arrays(dtype=st.sampled_from([np.float64, np.int8]), shape=st.integers(1, 50)))
def test_zone_map_ignores_nulls(values: NDArray[Any]) -> None:
    packed = pack(values)
    valid = [value for value in as_floats(values).tolist() if not np.isnan(value)]
    assert packed.num_nulls == len(values) - len(valid)
    assert packed.minimum == (min(valid) if valid else None)
    assert packed.maximum == (max(valid) if valid else None)


def test_constant_columns_take_one_value_of_room() -> None:
    assert len(pack(np.full(10_000, 1024)).data) == 8
    assert len(pack(np.zeros(10_000, dtype=np.int8)).data) == 1


def test_a_type_that_would_be_rounded_is_refused() -> None:
    with pytest.raises(ValueError, match="float32 cannot be stored"):
        pack(np.zeros(3, dtype=np.float32))
