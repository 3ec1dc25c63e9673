"""CSV and JSON Lines from column chunks, streamed in bounded memory.

A float is its shortest digits that read back to the same bits; null is empty in CSV and null in
JSON; money is decimal text beside its currency; a date is `YYYY-MM-DD`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from service.reports.export_fields import Chunk, ChunkColumn, Field, cells

NO_FACTS: Mapping[str, str] = {}
# Rows that become Python values at a time: 50 000 of them with 30 columns would be 150 MB, and
# turned into bytes by one call that holds all other threads for 0.3 s.
PIECE_ROWS = 2_000
# A cell that begins with one of these is run as a formula by spreadsheet programs (OWASP, "CSV
# injection"); the full-width forms are taken for the plain ones by some.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
_NEEDS_QUOTES = re.compile(r'[",\r\n]')


def write_csv(
    fields: Sequence[Field],
    chunks: Iterable[Chunk],
    facts: Mapping[str, str] = NO_FACTS,  # noqa: ARG001 - CSV has no place for them
) -> Iterator[bytes]:
    """RFC 4180 in UTF-8: the header, then the chunks piece by piece, lines ending in CRLF.

    Texts that a spreadsheet would run as a formula get a leading apostrophe; numbers are never
    touched. Raises ValueError as `cells` does.
    """
    yield _csv_lines([[_csv_text(field.name) for field in fields]])
    for piece in _pieces(fields, chunks):
        columns = [_csv_cells(field, piece[field.name]) for field in fields]
        yield _csv_lines(zip(*columns, strict=True))


def write_json_lines(
    fields: Sequence[Field],
    chunks: Iterable[Chunk],
    facts: Mapping[str, str] = NO_FACTS,  # noqa: ARG001 - every line is a row
) -> Iterator[bytes]:
    """One JSON object a row and line, its names in the order of `fields`.

    Raises ValueError as `cells` does.
    """
    encoder = msgspec.json.Encoder()
    names = [field.name for field in fields]
    for piece in _pieces(fields, chunks):
        columns = [cells(field, piece[field.name]) for field in fields]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        yield encoder.encode_lines(rows)


def _pieces(fields: Sequence[Field], chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    for chunk in chunks:
        num_rows = len(chunk[fields[0].name])
        for start in range(0, num_rows, PIECE_ROWS):
            yield {field.name: chunk[field.name][start : start + PIECE_ROWS] for field in fields}


def _csv_cells(field: Field, column: ChunkColumn) -> list[str]:
    values = cells(field, column)
    if field.kind in {"decimal", "date"}:
        return ["" if value is None else str(value) for value in values]
    if field.kind in {"text", "enum", "number_or_word"}:
        # Most texts repeat from row to row.
        texts = {value: "" if value is None else _csv_text(str(value)) for value in set(values)}
        return [texts[value] for value in values]
    # The very digits of the JSON Lines, and several times as fast as the csv module
    return msgspec.json.encode(values)[1:-1].decode().replace("null", "").split(",")


def harmless_cell(text: str) -> str:
    """The text, behind an apostrophe where a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _csv_text(text: str) -> str:
    """The text, behind an apostrophe where a spreadsheet would run it, in quotes if need be."""
    harmless = harmless_cell(text)
    if _NEEDS_QUOTES.search(harmless) is None:
        return harmless
    return '"' + harmless.replace('"', '""') + '"'


def _csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    """A line of one empty cell would be no row at all, so that cell is written in quotes."""
    return "".join([(",".join(row) or '""') + "\r\n" for row in rows]).encode()
