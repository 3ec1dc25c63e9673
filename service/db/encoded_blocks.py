"""Columns of points cut into blocks and packed; compute processes do it, and know no database."""

from collections.abc import Mapping

from msgspec import Struct

from service.db.codec import Array, Packed, pack

BLOCK_POINTS = 10_000


class EncodedBlock(Struct, frozen=True, kw_only=True):
    """One column of one block; `block` counts from the first block of the encoded columns."""

    block: int
    column: str
    packed: Packed


def encode_columns(columns: Mapping[str, Array]) -> list[EncodedBlock]:
    """Cut equal-length columns into blocks and pack them; needs no database.

    The first row must be the first point of a block. Raises `ValueError` for unequal lengths
    and for types that cannot be stored.
    """
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of one block must have equal lengths, not {lengths}")
    num_rows = next(iter(lengths.values()), 0)
    return [
        EncodedBlock(
            block=start // BLOCK_POINTS,
            column=name,
            packed=pack(values[start : start + BLOCK_POINTS]),
        )
        for start in range(0, num_rows, BLOCK_POINTS)
        for name, values in columns.items()
    ]
