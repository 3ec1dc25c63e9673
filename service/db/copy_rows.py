"""Columns to the rows of PostgreSQL's binary COPY, without an object for a value.

All fields of a block are laid side by side at their greatest width, (rows, bytes); one mask then
keeps the bytes that count. Format: PostgreSQL manual, COPY, "Binary Format".
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.db.codec import Array

Bytes = NDArray[np.uint8]
Lengths = NDArray[np.int64]

HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER = b"\xff\xff"
NULL_LENGTH = -1
LENGTH_BYTES = 4


class CopyField(Struct, frozen=True, kw_only=True):
    """One field of many rows: payload (rows, greatest width), and how much of it counts.

    A length of -1 is null.
    """

    payload: Bytes
    lengths: Lengths


def number_field(values: Array, nulls: Array | None = None) -> CopyField:
    """Numbers as their big-endian bytes: float64, int64 and bool keep every bit."""
    width = values.dtype.itemsize
    swapped = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder(">"))
    lengths = np.full(len(values), width, dtype=np.int64)
    if nulls is not None:
        lengths[nulls] = NULL_LENGTH
    return CopyField(payload=swapped.view(np.uint8).reshape(len(values), width), lengths=lengths)


def label_field(codes: Array, labels: Sequence[bytes | None]) -> CopyField:
    """The label at each row's code; a negative code and a label None are null."""
    widths = [NULL_LENGTH if label is None else len(label) for label in labels]
    table = np.zeros((len(labels) + 1, max([0, *widths])), dtype=np.uint8)
    for row, label in enumerate(labels):
        if label:
            table[row, : len(label)] = np.frombuffer(label, dtype=np.uint8)
    # The row after the last label is that of the negative codes.
    rows = np.where(codes < 0, len(labels), codes).astype(np.int64)
    return CopyField(
        payload=table[rows], lengths=np.array([*widths, NULL_LENGTH], dtype=np.int64)[rows]
    )


def encode_rows(fields: Sequence[CopyField]) -> bytes:
    """All rows, each with its number of fields in front; at least one field."""
    num_rows = len(fields[0].lengths)
    parts: list[Bytes] = [_repeated(np.array([len(fields)], dtype=">i2"), num_rows)]
    masks: list[Array] = [np.ones((num_rows, 2), dtype=np.bool_)]
    for field in fields:
        lengths = np.ascontiguousarray(field.lengths, dtype=">i4")
        parts += [lengths.view(np.uint8).reshape(num_rows, LENGTH_BYTES), field.payload]
        masks += [
            np.ones((num_rows, LENGTH_BYTES), dtype=np.bool_),
            np.arange(field.payload.shape[1]) < field.lengths[:, None],
        ]
    encoded: Bytes = np.concatenate(parts, axis=1)[np.concatenate(masks, axis=1)]
    return encoded.tobytes()


def _repeated(value: Array, num_rows: int) -> Bytes:
    return np.tile(value.view(np.uint8), (num_rows, 1))
