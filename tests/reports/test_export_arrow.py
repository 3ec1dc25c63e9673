import io
from collections.abc import Generator
from datetime import date
from decimal import Decimal
from typing import Any

import iso4217
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.reports.export_arrow import (
    MIN_BATCH_ROWS,
    MONEY,
    arrow_column,
    write_arrow,
    write_parquet,
)
from service.reports.export_fields import COST_FIELDS, Chunk, Field, output_fields
from service.reports.money import CostStatus

POINT = Field(name="point", kind="int64")
FACTS = {"model_versions": '["1.0"]'}


def parquet_of(*arguments: Any) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(b"".join(write_parquet(*arguments))))


def arrow_of(*arguments: Any) -> pa.RecordBatchStreamReader:
    return pa.ipc.open_stream(b"".join(write_arrow(*arguments)))


def values(field: Field, column: Any) -> list[Any]:
    return arrow_column(field, column).to_pylist()


def test_columns_have_the_types_of_their_numbers() -> None:
    fields = (
        *output_fields(),
        *COST_FIELDS,
        POINT,
        Field(name="computed", kind="bool"),
        Field(name="start_on", kind="date"),
    )
    expected = {
        "gpu_hours_lost": "double",
        "method": "dictionary<values=string, indices=int8, ordered=0>",
        "cost_of_loss": "decimal128(38, 4)",
        "currency": "string",
        "point": "int64",
        "computed": "bool",
        "start_on": "date32[day]",
    }
    for schema in (parquet_of(fields, []).schema_arrow, arrow_of(fields, []).schema):
        assert schema.names == [field.name for field in fields]
        assert {name: str(schema.field(name).type) for name in expected} == expected


def test_units_sentences_and_facts_are_in_the_file() -> None:
    (field,) = (field for field in output_fields() if field.name == "gpu_hours_lost")
    chunk: Chunk = {field.name: np.array([1.5])}
    for schema in (
        parquet_of([field], [chunk], FACTS).schema_arrow,
        arrow_of([field], [chunk], FACTS).schema,
    ):
        assert schema.metadata == {b"trainard.model_versions": b'["1.0"]'}
        found = schema.field(0).metadata
        assert found is not None
        assert found[b"unit"] == b"GPU-hours"
        assert found[b"description"] == field.sentence.encode()


def test_nulls_are_nulls() -> None:
    floats = arrow_column(Field(name="a", kind="float64"), np.array([-0.0, np.nan, 5e-324]))
    assert floats.null_count == 1
    assert [repr(value) for value in floats.to_pylist()] == ["-0.0", "None", "5e-324"]
    assert values(POINT, np.array([3.0, np.nan])) == [3, None]
    assert values(POINT, np.array([2**62, -1])) == [2**62, -1]
    assert values(Field(name="c", kind="text"), ["é", None]) == ["é", None]
    assert values(Field(name="d", kind="date"), [date(2026, 12, 1), None]) == [
        date(2026, 12, 1),
        None,
    ]
    method = Field(name="method", kind="enum", labels=("closed_form", "quadrature"))
    assert values(method, np.array([1, -1, 0])) == ["quadrature", None, "closed_form"]
    assert values(method, np.array([np.nan, 1.0])) == [None, "quadrature"]
    switch = Field(name="is_extrapolated", kind="bool")
    assert values(switch, np.array([1.0, np.nan, 0.0])) == [True, None, False]
    assert values(switch, np.array([True, False])) == [True, False]
    assert values(COST_FIELDS[2], [CostStatus.PRICED]) == ["priced"]


def test_money_stays_the_exact_decimal() -> None:
    amounts = [Decimal("0.10"), None, Decimal("-9" + "9" * 33 + ".9999"), Decimal("1E+3")]
    assert values(COST_FIELDS[0], amounts) == amounts
    with pytest.raises(ValueError, match="data loss"):
        values(COST_FIELDS[0], [Decimal("0.00001")])
    with pytest.raises(ValueError, match="precision"):
        values(COST_FIELDS[0], [Decimal("1E+34")])


def test_the_minor_unit_of_every_currency_fits() -> None:
    assert max(currency.exponent or 0 for currency in iso4217.Currency) <= MONEY.scale


def test_small_chunks_are_gathered_and_large_ones_are_row_groups() -> None:
    sizes = [MIN_BATCH_ROWS - 1, 1, MIN_BATCH_ROWS, 3, 4]
    stops = np.cumsum(sizes).tolist()
    chunks: list[Chunk] = [
        {"point": np.arange(stop - size, stop)} for size, stop in zip(sizes, stops, strict=True)
    ]
    file = parquet_of([POINT], chunks)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [MIN_BATCH_ROWS, MIN_BATCH_ROWS, 7]
    read = list(arrow_of([POINT], chunks))
    assert [batch.num_rows for batch in read] == groups
    expected = list(range(stops[-1]))
    assert file.read()["point"].to_pylist() == expected
    assert pa.Table.from_batches(read)["point"].to_pylist() == expected


def test_a_stream_given_up_half_way_is_closed() -> None:
    chunk: Chunk = {"point": np.arange(MIN_BATCH_ROWS)}
    for write in (write_parquet, write_arrow):
        parts = write([POINT], [chunk, chunk])
        assert isinstance(parts, Generator)
        assert len(next(parts)) > 1000
        parts.close()
        assert list(parts) == []
