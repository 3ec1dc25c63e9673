import csv
import io
import json
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from service.reports.export_fields import Chunk, Field
from service.reports.export_text import PIECE_ROWS, write_csv, write_json_lines

FIELDS = (
    Field(name="gpu_hours_lost", kind="float64"),
    Field(name="point", kind="int64"),
    Field(name="computed", kind="bool"),
    Field(name="method", kind="enum", labels=("closed_form", "quadrature")),
    Field(name="name", kind="text"),
    Field(name="cost_of_loss", kind="decimal"),
    Field(name="start_on", kind="date"),
)
ROWS: Chunk = {
    "gpu_hours_lost": np.array([0.1, np.nan]),
    "point": np.array([3, -4]),
    "computed": np.array([True, False]),
    "method": np.array([1, -1], dtype=np.int8),
    "name": ['slow, "one"', None],
    "cost_of_loss": [Decimal("-12.50"), None],
    "start_on": [date(2026, 12, 1), None],
}
NAME = Field(name="name", kind="text")


def read_csv(parts: list[bytes]) -> list[dict[str, str]]:
    text = b"".join(parts).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_csv_is_rfc_4180_with_units_in_the_header() -> None:
    assert b"".join(write_csv(FIELDS, [ROWS])) == (
        b"gpu_hours_lost,point,computed,method,name,cost_of_loss,start_on\r\n"
        b'0.1,3,true,quadrature,"slow, ""one""",-12.50,2026-12-01\r\n'
        b",-4,false,,,,\r\n"
    )


def test_a_line_is_an_object_in_the_order_of_the_fields() -> None:
    first, second = b"".join(write_json_lines(FIELDS, [ROWS])).splitlines()
    assert first == (
        b'{"gpu_hours_lost":0.1,"point":3,"computed":true,"method":"quadrature",'
        b'"name":"slow, \\"one\\"","cost_of_loss":"-12.50","start_on":"2026-12-01"}'
    )
    assert [value for value in json.loads(second).values() if value is not None] == [-4, False]


# The last ones are the full-width = + - @, the tenth is a formula in a quoted cell.
@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
)
def test_texts_are_no_formulas(start: str) -> None:
    text = f"{start}cmd|'/c calc'!A1"
    parts = list(write_csv([NAME], [{"name": [text]}]))
    assert read_csv(parts) == [{"name": "'" + text}]
    (line,) = write_json_lines([NAME], [{"name": [text]}])
    assert json.loads(line) == {"name": text}


@pytest.mark.parametrize("text", ['a"\n=1+1', "a\r\n=1+1", 'a",=1+1', ' "=1+1'])
def test_a_text_cannot_begin_another_cell(text: str) -> None:
    parts = list(write_csv([NAME, FIELDS[1]], [{"name": [text], "point": np.array([1])}]))
    assert read_csv(parts) == [{"name": text, "point": "1"}]


def test_labels_and_names_of_columns_are_no_formulas_either() -> None:
    field = Field(name="=1+1", kind="enum", labels=("@sum",))
    assert b"".join(write_csv([field], [{"=1+1": np.array([0])}])) == b"'=1+1\r\n'@sum\r\n"


def test_negative_numbers_are_no_texts() -> None:
    fields = [Field(name="a", kind="float64"), Field(name="b", kind="decimal")]
    chunk: Chunk = {"a": np.array([-1.5]), "b": [Decimal("-0.10")]}
    assert list(write_csv(fields, [chunk]))[1] == b"-1.5,-0.10\r\n"


def test_a_row_of_one_empty_cell_stays_a_row() -> None:
    (_, part) = write_csv([NAME], [{"name": [None, "a", ""]}])
    assert part == b'""\r\na\r\n""\r\n'


def test_utf_8_is_written() -> None:
    (_, part) = write_csv([NAME], [{"name": ["été ☕"]}])
    assert part.decode() == "été ☕\r\n"


def test_whole_numbers_stay_whole_beside_nulls() -> None:
    field = Field(name="slow_groups.0.count", kind="int64")
    assert b"".join(write_csv([field], [{field.name: np.array([3.0, np.nan])}])) == (
        b'slow_groups.0.count\r\n3\r\n""\r\n'
    )


def test_no_rows_are_a_header_or_nothing() -> None:
    assert list(write_csv(FIELDS[:2], [])) == [b"gpu_hours_lost,point\r\n"]
    assert list(write_json_lines(FIELDS[:2], [])) == []


def test_a_large_chunk_is_written_piece_by_piece() -> None:
    points = np.arange(2 * PIECE_ROWS + 1)
    parts = list(write_json_lines([FIELDS[1]], [{"point": points}]))
    assert [part.count(b"\n") for part in parts] == [PIECE_ROWS, PIECE_ROWS, 1]
    lines = b"".join(parts).splitlines()
    assert [json.loads(line)["point"] for line in lines] == points.tolist()
