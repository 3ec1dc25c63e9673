"""Plain tables as CSV: commas, decimal points, a header; read by blocks of bytes."""

import csv
import io
import re
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from service.calibration.reading.arrow_rows import rows_of
from service.calibration.reading.cells import Place
from service.calibration.reading.columns import FLAG, TableColumns, columns_of, shown
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.tables import Table
from service.calibration.reading.text_blocks import BOM, blocks, line_of_text
from service.calibration.refusals import TimingsRefusedError, refused

_MAX_HEADER_BYTES: Final = 65_536
_OTHER_DELIMITERS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}
_NUMBER: Final = re.compile(r"[+-]?[0-9]+([.,][0-9]*)?([eE][+-]?[0-9]+)?")
_ROW: Final = re.compile(r"Row #([0-9]+)")
_COLUMN: Final = re.compile(r"column #([0-9]+)")
_VALUE: Final = re.compile(r"invalid value '(.*)'", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected ([0-9]+) columns, got ([0-9]+)")


def read_csv(file: OpenFile, number: int, table: Table) -> int:
    """Put the rows of the file, the `number`-th of the table, into it; returns how many.

    Raises TimingsRefusedError, and what `Table.add` raises.
    """
    names = _header(file)
    columns = columns_of(names, file.name)
    table.begin(columns)
    num_rows = 0
    for place_of_block, block in enumerate(blocks(file)):
        text = block if place_of_block else block.partition(b"\n")[2]
        for batch in _batches(text, file, names, columns, num_rows):
            table.add(Place(number, num_rows), rows_of(batch, columns, table, num_rows), columns)
            num_rows += batch.num_rows
    return num_rows


def line_of(file: OpenFile, row: int) -> int:
    """The line, counted from 1, of a row counted from 0; lines without text are no rows."""
    # The header is a line with text, too.
    return line_of_text(file, row + 1)


def _header(file: OpenFile) -> list[str]:
    file.stream.seek(0)
    line = file.stream.readline(_MAX_HEADER_BYTES).removeprefix(BOM)
    text = line.decode("utf-8", errors="replace")
    if len(line) >= _MAX_HEADER_BYTES:
        raise refused(
            "unreadable_file",
            f"the first line has over {_MAX_HEADER_BYTES} bytes, so it is no header of a table",
            file=file.name,
            line=1,
        )
    names = next(csv.reader([text.rstrip("\r\n")]), [])
    if len(names) < 2:
        _refuse_delimiter(text, file.name)
    if names and all(_NUMBER.fullmatch(name.strip()) for name in names):
        raise refused(
            "missing_column",
            f"the first line is {shown(text.strip())}, all numbers: a table starts with the names "
            "of its columns, such as step,rank,compute_ms",
            file=file.name,
            line=1,
        )
    return [name.strip() for name in names]


def _refuse_delimiter(text: str, file: str) -> None:
    for delimiter, word in _OTHER_DELIMITERS.items():
        if delimiter in text:
            raise refused(
                "unreadable_file",
                f"the columns are separated by {word}: separate them by commas, and write decimals "
                "with a point",
                file=file,
                line=1,
            )


def _batches(
    text: bytes, file: OpenFile, names: list[str], columns: TableColumns, first_row: int
) -> list[pa.RecordBatch]:
    """The rows of whole lines.

    Arrow is given one block after the other, since its own reading of streams takes a thread, which
    hangs where memory ends.
    """
    if not text.strip():
        return []
    try:
        found = pa_csv.read_csv(
            io.BytesIO(text),
            read_options=pa_csv.ReadOptions(
                use_threads=False,
                block_size=len(text) + 1,
                # Those that are not read may have any name, or none.
                column_names=[
                    name if name in columns.names else f"{place} {name}"
                    for place, name in enumerate(names)
                ],
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=_types(columns),
                include_columns=list(columns.names),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _refusal(str(error), file, names, first_row) from None
    return found.to_batches()


def _types(columns: TableColumns) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = dict.fromkeys(columns.names, pa.int64())
    types.update({column.name: pa.float64() for column in columns.times})
    text = pa.dictionary(pa.int32(), pa.string())
    types.update({name: text for name in (FLAG, "node") if name in types})
    return types


def _refusal(message: str, file: OpenFile, names: list[str], first_row: int) -> TimingsRefusedError:
    """What Arrow says, in the words of whoever made the file; it counts rows from 1."""
    row, column = _ROW.search(message), _COLUMN.search(message)
    value, expected = _VALUE.search(message), _EXPECTED.search(message)
    line = line_of(file, first_row + int(row[1]) - 1) if row else None
    if expected:
        detail = (
            f"{expected[2]} values, but the header has {expected[1]} names; decimals are written "
            "with a point"
        )
    elif column and value:
        detail = _bad_value(names[int(column[1])], value[1])
    else:
        detail = f"it cannot be read as CSV: {shown(message, 200)}"
    return refused("bad_value" if line else "unreadable_file", detail, file=file.name, line=line)


def _bad_value(name: str, value: str) -> str:
    if _NUMBER.fullmatch(value) and "," in value:
        return f"{name} is {shown(value)}: write decimals with a point, not with a comma"
    kind = "a number" if name.endswith(("_ms", "_s", "_us")) else "a whole number"
    return f"{name} is {shown(value)}, which is not {kind}"
