"""Columns to bytes and back, bit for bit, with the facts that a scan can skip them by.

Little-endian values are byte-shuffled (all first bytes, then all second bytes, …), which makes
neighbouring floats compressible, and packed with zstd level 1. A block whose values all have the
same bits holds that one value unpacked. Measured choice: `shared/reference/foundations.md`.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "f8": np.dtype("<f8"),
    "i8": np.dtype("<i8"),
    "i1": np.dtype("i1"),
    "b1": np.dtype("?"),
}
KINDS = {dtype: kind for kind, dtype in DTYPES.items()}


class Packed(Struct, frozen=True, kw_only=True):
    """One column of one block. `minimum` and `maximum` ignore nulls; None when all are null.

    Null is what is answered as null: a float that is not finite, a negative int8 (no enum code).
    """

    kind: str
    num_rows: int
    num_nulls: int
    minimum: float | None
    maximum: float | None
    data: bytes


def pack(values: Array) -> Packed:
    """Encode a one-dimensional array of float64, int64, int8 or bool; at least one value.

    Raises `ValueError` for another type, so that nothing is ever stored rounded.
    """
    kind = KINDS.get(values.dtype.newbyteorder("<"))
    if kind is None:
        raise ValueError(
            f"a column of type {values.dtype} cannot be stored, only float64, int64, int8, bool"
        )
    stored = np.ascontiguousarray(values, dtype=DTYPES[kind])
    minimum, maximum, num_nulls = _extent(stored, kind)
    return Packed(
        kind=kind,
        num_rows=len(stored),
        num_nulls=num_nulls,
        minimum=minimum,
        maximum=maximum,
        data=_compress(stored),
    )


def unpack(kind: str, num_rows: int, data: bytes) -> Array:
    """The `num_rows` values of a packed column; read-only."""
    return unpack_rows(kind, num_rows, data, slice(None))


def unpack_rows(kind: str, num_rows: int, data: bytes, rows: Array | slice) -> Array:
    """The values of a packed column at `rows`; few rows are cheaper than all."""
    dtype = DTYPES[kind]
    # A zstd frame has at least 9 bytes, so one value's bytes are never taken for a frame.
    if len(data) == dtype.itemsize:
        same: Array = np.broadcast_to(np.frombuffer(data, dtype=dtype), (num_rows,))[rows]
        return same
    size = num_rows * dtype.itemsize
    shuffled = np.frombuffer(
        _codec().decompress(data, decompressed_size=size, asbytes=True), dtype=np.uint8
    )
    plain = np.ascontiguousarray(shuffled.reshape(dtype.itemsize, num_rows)[:, rows].T)
    values: Array = plain.view(dtype).reshape(-1)
    return values


def as_floats(values: Array) -> NDArray[np.float64]:
    """The values as comparable float64 with NaN for null."""
    floats = values.astype(np.float64)
    if values.dtype == np.int8:
        floats[values < 0] = np.nan
    elif values.dtype == np.float64:
        floats[~np.isfinite(floats)] = np.nan
    return floats


def _compress(stored: Array) -> bytes:
    bits = stored.view(f"u{stored.dtype.itemsize}")
    if bits[0] == bits[-1] and (bits == bits[0]).all():
        return stored[:1].tobytes()
    shuffled = bits.view(np.uint8).reshape(len(stored), -1).T
    packed: bytes = _codec().compress(shuffled.tobytes(), asbytes=True)
    return packed


def _extent(stored: Array, kind: str) -> tuple[float | None, float | None, int]:
    """Minimum, maximum and number of nulls."""
    lowest, highest = stored.min(), stored.max()
    valid = stored
    if kind == "i1" and lowest < 0:
        valid = stored[stored >= 0]
    elif kind == "f8" and not (np.isfinite(lowest) and np.isfinite(highest)):
        valid = stored[np.isfinite(stored)]
    num_nulls = len(stored) - len(valid)
    if num_nulls == 0:
        return float(lowest), float(highest), 0
    if len(valid) == 0:
        return None, None, num_nulls
    return float(valid.min()), float(valid.max()), num_nulls


def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)
