import csv
import io
import json
import math
import struct
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.results import COLUMNS
from service.reports.export import (
    COST_FIELDS,
    EXPORTERS,
    Chunk,
    Field,
    cells,
    output_fields,
    write_csv,
    write_json_lines,
)
from service.reports.money import CostStatus

FIELDS = (
    Field(name="gpu_hours_lost", kind="float64"),
    Field(name="point", kind="int64"),
    Field(name="computed", kind="bool"),
    Field(name="method", kind="enum", labels=("closed_form", "quadrature")),
    Field(name="name", kind="text"),
    Field(name="cost_of_loss", kind="decimal"),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
ROWS = st.lists(
    st.tuples(
        st.floats(allow_infinity=False),
        st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
        st.integers(-1, 1),
        st.none() | TEXTS,
        st.none() | st.decimals(-(10**9), 10**9, places=2),
    ),
    max_size=6,
)


def chunk_of(rows: list[tuple[float, int, bool, int, str | None, Decimal | None]]) -> Chunk:
    return {
        "gpu_hours_lost": np.array([row[0] for row in rows], dtype=np.float64),
        "point": np.array([row[1] for row in rows], dtype=np.int64),
        "computed": np.array([row[2] for row in rows], dtype=np.bool_),
        "method": np.array([row[3] for row in rows], dtype=np.int8),
        "name": [row[4] for row in rows],
        "cost_of_loss": [row[5] for row in rows],
    }


def read_csv(parts: list[bytes]) -> list[dict[str, str]]:
    text = b"".join(parts).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


@given(chunks=st.lists(ROWS, max_size=3))
def test_both_formats_read_back_to_the_same_bits(
    chunks: list[list[tuple[float, int, bool, int, str | None, Decimal | None]]],
) -> None:
    rows = [row for chunk in chunks for row in chunk]
    lines = b"".join(write_json_lines(FIELDS, map(chunk_of, chunks))).splitlines()
    objects = [json.loads(line) for line in lines]
    records = read_csv(list(write_csv(FIELDS, map(chunk_of, chunks))))
    assert len(rows) == len(objects) == len(records)
    for (hours, point, computed, code, name, cost), found, record in zip(
        rows, objects, records, strict=True
    ):
        if math.isnan(hours):
            assert found["gpu_hours_lost"] is None
            assert record["gpu_hours_lost"] == ""
        else:
            assert bits(found["gpu_hours_lost"]) == bits(hours)
            assert bits(float(record["gpu_hours_lost"])) == bits(hours)
        assert found["point"] == int(record["point"]) == point
        assert found["computed"] is computed
        assert record["computed"] == str(computed).lower()
        assert found["method"] == (None if code < 0 else FIELDS[3].labels[code])
        assert record["method"] == (found["method"] or "")
        assert found["name"] == name
        assert record["name"].removeprefix("'") == (name or "").removeprefix("'")
        assert found["cost_of_loss"] == (None if cost is None else str(cost))
        assert record["cost_of_loss"] == (found["cost_of_loss"] or "")


def test_csv_is_rfc_4180_with_units_in_the_header() -> None:
    rows: list[tuple[float, int, bool, int, str | None, Decimal | None]] = [
        (0.1, 3, True, 1, 'slow, "one"', Decimal("-12.50")),
        (math.nan, -4, False, -1, None, None),
    ]
    assert b"".join(write_csv(FIELDS, [chunk_of(rows)])) == (
        b"gpu_hours_lost,point,computed,method,name,cost_of_loss\r\n"
        b'0.1,3,true,quadrature,"slow, ""one""",-12.50\r\n'
        b",-4,false,,,\r\n"
    )


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"])
def test_texts_are_no_formulas(start: str) -> None:
    field = Field(name="name", kind="text")
    text = f"{start}cmd|'/c calc'!A1"
    parts = list(write_csv([field], [{"name": [text]}]))
    assert read_csv(parts) == [{"name": "'" + text}]
    (line,) = write_json_lines([field], [{"name": [text]}])
    assert json.loads(line) == {"name": text}


def test_negative_numbers_are_no_texts() -> None:
    fields = [Field(name="a", kind="float64"), Field(name="b", kind="decimal")]
    chunk: Chunk = {"a": np.array([-1.5]), "b": [Decimal("-0.10")]}
    assert list(write_csv(fields, [chunk]))[1] == b"-1.5,-0.10\r\n"


def test_decimals_are_plain_digits() -> None:
    assert cells(Field(name="b", kind="decimal"), [Decimal("1E+3"), None]) == ["1000", None]


def test_a_row_of_one_empty_cell_stays_a_row() -> None:
    (_, part) = write_csv([Field(name="name", kind="text")], [{"name": [None, "a", ""]}])
    assert part == b'""\r\na\r\n""\r\n'


def test_utf_8_is_written() -> None:
    (_, part) = write_csv([Field(name="name", kind="text")], [{"name": ["été ☕"]}])
    assert part.decode() == "été ☕\r\n"


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_writer_streams_chunk_by_chunk(name: str) -> None:
    """The part of a chunk is out before the next chunk is asked for."""
    asked: list[int] = []

    def chunks() -> Iterator[Chunk]:
        for number in range(3):
            asked.append(number)
            yield {"point": np.array([number])}

    exporter = EXPORTERS[name]
    parts = exporter.write([Field(name="point", kind="int64")], chunks())
    while not asked:
        next(parts)
    assert asked == [0]
    assert b"1" in next(parts)
    assert exporter.extension == name


@pytest.mark.parametrize("name", EXPORTERS)
def test_an_infinity_does_not_leave(name: str) -> None:
    with pytest.raises(ValueError, match="gpu_hours_lost holds an infinity"):
        list(EXPORTERS[name].write([FIELDS[0]], [{"gpu_hours_lost": np.array([1.0, -np.inf])}]))


def test_a_code_has_a_label() -> None:
    with pytest.raises(ValueError, match="method holds the code 2, but has 2 labels"):
        cells(FIELDS[3], np.array([0, 2]))


def test_no_rows_are_a_header_or_nothing() -> None:
    assert list(write_csv(FIELDS[:2], [])) == [b"gpu_hours_lost,point\r\n"]
    assert list(write_json_lines(FIELDS[:2], [])) == []


def test_the_fields_of_an_export_are_the_columns_of_the_model() -> None:
    fields = output_fields()
    assert [field.name for field in fields] == [column.name for column in COLUMNS]
    chunk: Chunk = {
        **{field.name: np.zeros(1, dtype=np.int64) for field in fields},
        "cost_of_loss": [Decimal("1.00")],
        "currency": ["EUR"],
        "cost_status": [CostStatus.PRICED],
    }
    (record,) = read_csv(list(write_csv((*fields, *COST_FIELDS), [chunk])))
    assert record["method"] == "closed_form"
    assert [record[field.name] for field in COST_FIELDS] == ["1.00", "EUR", "priced"]


def test_whole_numbers_stay_whole_beside_nulls() -> None:
    field = Field(name="slow_groups.0.count", kind="int64")
    assert cells(field, np.array([3.0, np.nan, 4.0])) == [3, None, 4]
    assert cells(field, np.array([3, 4])) == [3, 4]
    assert b"".join(write_csv([field], [{field.name: np.array([3.0, np.nan])}])) == (
        b'slow_groups.0.count\r\n3\r\n""\r\n'
    )
