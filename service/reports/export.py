"""CSV and JSON Lines from column chunks: the same numbers in both, streamed in bounded memory.

A float is its shortest digits that read back to the same bits; null is empty in CSV and null in
JSON; money is decimal text beside its currency.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.model.results import COLUMNS

FieldKind = Literal["float64", "int64", "bool", "enum", "text", "decimal"]
Cell = float | int | bool | str | None
# A column of a chunk: an array, or for texts and decimals a sequence
ChunkColumn = NDArray[Any] | Sequence[str | Decimal | None]
Chunk = Mapping[str, ChunkColumn]

# A cell that begins with one of these is run as a formula by spreadsheet programs (OWASP, "CSV
# injection"); the full-width forms are taken for the plain ones by some.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
_NEEDS_QUOTES = re.compile(r'[",\r\n]')


class Field(Struct, frozen=True, kw_only=True):
    """A column of the file: its name (the unit is its last word) and how its chunks are read.

    float64 (NaN is null), int64 (also as floats, NaN is null), bool; enum: codes into `labels`,
    below 0 is null; text: str or None; decimal: Decimal or None.
    """

    name: str
    kind: FieldKind
    labels: tuple[str, ...] = ()


def output_fields() -> tuple[Field, ...]:
    """The model's output columns, in their order."""
    return tuple(
        Field(name=column.name, kind=column.kind, labels=column.labels) for column in COLUMNS
    )


# What stands beside the GPU-hours where money may be seen
COST_FIELDS = (
    Field(name="cost_of_loss", kind="decimal"),
    Field(name="currency", kind="text"),
    Field(name="cost_status", kind="text"),
)


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """A format: what it is called in HTTP and in file names, and its writer."""

    media_type: str
    extension: str
    write: Callable[[Sequence[Field], Iterable[Chunk]], Iterator[bytes]]


def write_csv(fields: Sequence[Field], chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """RFC 4180 in UTF-8: the header, then one part a chunk, lines ending in CRLF.

    Texts that a spreadsheet would run as a formula get a leading apostrophe; numbers are never
    touched. Raises ValueError as `cells` does.
    """
    yield _csv_lines([[field.name for field in fields]])
    for chunk in chunks:
        columns = [_csv_cells(field, chunk[field.name]) for field in fields]
        yield _csv_lines(zip(*columns, strict=True))


def write_json_lines(fields: Sequence[Field], chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """One JSON object a row and line, its names in the order of `fields`; one part a chunk.

    Raises ValueError as `cells` does.
    """
    encoder = msgspec.json.Encoder()
    names = [field.name for field in fields]
    for chunk in chunks:
        columns = [cells(field, chunk[field.name]) for field in fields]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        yield encoder.encode_lines(rows)


EXPORTERS: Mapping[str, Exporter] = {
    "csv": Exporter(
        media_type="text/csv; charset=utf-8; header=present", extension="csv", write=write_csv
    ),
    "jsonl": Exporter(media_type="application/x-ndjson", extension="jsonl", write=write_json_lines),
}


def cells(field: Field, column: ChunkColumn) -> list[Cell]:
    """The values of a chunk's column as they stand in JSON.

    Raises ValueError for an infinity and for an enum code without a label: neither may leave.
    """
    if field.kind == "float64":
        return _floats(field, np.asarray(column, dtype=np.float64))
    if field.kind == "enum":
        return _labels(field, np.asarray(column, dtype=np.int64))
    if field.kind == "decimal":
        return [None if amount is None else format(Decimal(amount), "f") for amount in column]
    if field.kind == "text":
        return [None if text is None else str(text) for text in column]
    if field.kind == "int64":
        return _whole_numbers(np.asarray(column))
    plain: list[Cell] = np.asarray(column).tolist()
    return plain


def _whole_numbers(column: NDArray[Any]) -> list[Cell]:
    """Whole numbers; a column with nulls holds them as floats, NaN for null."""
    if column.dtype.kind != "f":
        numbers: list[Cell] = column.tolist()
        return numbers
    return [None if math.isnan(number) else int(number) for number in column.tolist()]


def _floats(field: Field, column: NDArray[np.float64]) -> list[Cell]:
    if np.isinf(column).any():
        raise ValueError(f"{field.name} holds an infinity, which no format can say")
    numbers: list[float] = column.tolist()
    if not np.isnan(column).any():
        return list(numbers)
    return [None if math.isnan(number) else number for number in numbers]


def _labels(field: Field, codes: NDArray[np.int64]) -> list[Cell]:
    if (codes >= len(field.labels)).any():
        raise ValueError(
            f"{field.name} holds the code {codes.max()}, but has {len(field.labels)} labels"
        )
    return [None if code < 0 else field.labels[code] for code in codes.tolist()]


def _csv_cells(field: Field, column: ChunkColumn) -> list[str]:
    values = cells(field, column)
    if field.kind == "decimal":
        return ["" if value is None else str(value) for value in values]
    if field.kind in {"text", "enum"}:
        return ["" if value is None else _csv_text(str(value)) for value in values]
    # The very digits of the JSON Lines, and several times as fast as the csv module
    if not values:
        return []
    return msgspec.json.encode(values)[1:-1].decode().replace("null", "").split(",")


def _csv_text(text: str) -> str:
    """The text, behind an apostrophe where a spreadsheet would run it, in quotes if need be."""
    harmless = f"'{text}" if text.startswith(_FORMULA_STARTS) else text
    if _NEEDS_QUOTES.search(harmless) is None:
        return harmless
    return '"' + harmless.replace('"', '""') + '"'


def _csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    """A line of one empty cell would be no row at all, so that cell is written in quotes."""
    return "".join([(",".join(row) or '""') + "\r\n" for row in rows]).encode()
