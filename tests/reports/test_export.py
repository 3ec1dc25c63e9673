"""All formats hold the same numbers: each is read back by somebody else's reader."""

import struct
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.reports.export import EXPORTERS
from service.reports.export_arrow import MIN_BATCH_ROWS
from service.reports.export_fields import Chunk, Field
from tests.reports.export_readers import READERS, Row, bits

FIELDS = (
    Field(name="gpu_hours_lost", kind="float64"),
    Field(name="point", kind="int64"),
    Field(name="num_spare_gpus", kind="int64"),
    Field(name="computed", kind="bool"),
    Field(name="method", kind="enum", labels=("closed_form", "quadrature")),
    Field(name="name", kind="text"),
    Field(name="cost_of_loss", kind="decimal"),
    Field(name="start_on", kind="date"),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
ROWS = st.lists(
    st.tuples(
        st.floats(allow_infinity=False, width=64),
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.integers(-(2**53), 2**53),
        st.booleans(),
        st.none() | st.sampled_from(FIELDS[4].labels),
        st.none() | TEXTS,
        st.none() | st.decimals(-(10**30), 10**30, places=2),
        st.none() | st.dates(),
    ),
    max_size=6,
)


def chunk_of(rows: list[tuple[Any, ...]]) -> Chunk:
    columns: dict[str, list[Any]] = {
        field.name: [row[number] for row in rows] for number, field in enumerate(FIELDS)
    }
    spare = [np.nan if number is None else float(number) for number in columns["num_spare_gpus"]]
    method = [-1 if label is None else FIELDS[4].labels.index(label) for label in columns["method"]]
    return {
        **columns,
        "gpu_hours_lost": np.array(columns["gpu_hours_lost"], dtype=np.float64),
        "point": np.array(columns["point"], dtype=np.int64),
        "num_spare_gpus": np.array(spare, dtype=np.float64),
        "computed": np.array(columns["computed"], dtype=np.bool_),
        "method": np.array(method, dtype=np.int8),
    }


def plain(format_name: str, row: Row) -> tuple[Any, ...]:
    """What was read, as comparable values; floats as their bits."""
    hours, point, spare, computed, method, name, cost, start_on = row.values()
    text = format_name == "csv"
    assert text or name is None or isinstance(name, str)
    return (
        bits(hours),
        int(point),
        None if spare in {None, ""} else int(spare),
        {"true": True, "false": False}.get(str(computed).lower()),
        method or None,
        # CSV cannot tell an empty text from none, and begins formulas with an apostrophe
        (name or "").removeprefix("'") if text else name,
        None if cost in {None, ""} else Decimal(cost),
        None if start_on in {None, ""} else date.fromisoformat(str(start_on)),
    )


def expected(format_name: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    hours, point, spare, computed, method, name, cost, start_on = row
    shown = (name or "").removeprefix("'") if format_name == "csv" else name
    number = None if np.isnan(hours) else struct.pack("<d", hours)
    return (number, point, spare, computed, method, shown, cost, start_on)


@settings(deadline=None)
@given(chunks=st.lists(ROWS, max_size=3))
def test_every_format_reads_back_to_the_same_bits(chunks: list[list[tuple[Any, ...]]]) -> None:
    rows = [row for chunk in chunks for row in chunk]
    for name, exporter in EXPORTERS.items():
        read = READERS[name](b"".join(exporter.write(FIELDS, map(chunk_of, chunks))))
        assert [plain(name, row) for row in read] == [expected(name, row) for row in rows], name


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_writer_streams_chunk_by_chunk(name: str) -> None:
    """The part of a chunk is out before the next chunk is asked for."""
    asked: list[int] = []

    def chunks() -> Iterator[Chunk]:
        for number in range(3):
            asked.append(number)
            yield {"point": np.full(MIN_BATCH_ROWS, number)}

    parts = EXPORTERS[name].write([Field(name="point", kind="int64")], chunks())
    while not asked:
        next(parts)
    assert asked == [0]
    assert len(next(parts)) > 100
    assert asked == [0] or name in {"parquet", "arrow"}


@pytest.mark.parametrize("name", EXPORTERS)
def test_an_infinity_does_not_leave(name: str) -> None:
    with pytest.raises(ValueError, match="gpu_hours_lost holds an infinity"):
        list(EXPORTERS[name].write([FIELDS[0]], [{"gpu_hours_lost": np.array([1.0, -np.inf])}]))


@pytest.mark.parametrize("name", EXPORTERS)
def test_the_same_rows_are_the_same_bytes(name: str) -> None:
    rows = [(0.5, 1, None, True, None, "é", Decimal("1.00"), date(2026, 12, 1))] * 3

    def written() -> bytes:
        facts = {"trainard.query": "{}"}
        return b"".join(EXPORTERS[name].write(FIELDS, [chunk_of(rows)], facts))

    assert written() == written()


@pytest.mark.parametrize("name", EXPORTERS)
def test_no_rows_are_a_readable_file(name: str) -> None:
    assert READERS[name](b"".join(EXPORTERS[name].write(FIELDS, []))) == []


def test_media_types_and_file_names_are_the_registered_ones() -> None:
    named = {
        name: (exporter.media_type, exporter.extension) for name, exporter in EXPORTERS.items()
    }
    assert named == {
        "csv": ("text/csv; charset=utf-8; header=present", "csv"),
        "jsonl": ("application/x-ndjson", "jsonl"),
        "parquet": ("application/vnd.apache.parquet", "parquet"),
        "arrow": ("application/vnd.apache.arrow.stream", "arrows"),
    }
