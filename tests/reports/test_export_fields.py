from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from service.model.results import COLUMNS
from service.reports.export_fields import (
    COST_FIELDS,
    Field,
    cells,
    input_field,
    output_fields,
)

METHOD = Field(name="method", kind="enum", labels=("closed_form", "quadrature"))


def test_the_fields_of_an_export_are_the_columns_of_the_model() -> None:
    shown = [(field.name, field.unit, field.sentence) for field in output_fields()]
    assert shown == [(column.name, column.unit, column.sentence) for column in COLUMNS]
    assert [field.name for field in COST_FIELDS] == ["cost_of_loss", "currency", "cost_status"]


def test_decimals_are_plain_digits() -> None:
    field = Field(name="b", kind="decimal")
    assert cells(field, [Decimal("1E+3"), None, Decimal("-0.10")]) == ["1000", None, "-0.10"]


def test_dates_are_iso_8601() -> None:
    assert cells(Field(name="start_on", kind="date"), [date(2026, 12, 1), None]) == [
        "2026-12-01",
        None,
    ]


def test_a_code_has_a_label() -> None:
    assert cells(METHOD, np.array([1, -1])) == ["quadrature", None]
    with pytest.raises(ValueError, match="method holds the code 2, but has 2 labels"):
        cells(METHOD, np.array([0, 2]))


def test_whole_numbers_stay_whole_beside_nulls() -> None:
    field = Field(name="slow_groups.0.count", kind="int64")
    assert cells(field, np.array([3.0, np.nan, 4.0])) == [3, None, 4]
    assert cells(field, np.array([3, 4])) == [3, 4]


def test_words_stand_beside_whole_numbers() -> None:
    field = input_field("slow_groups.0.placement")
    assert (field.kind, field.labels) == ("number_or_word", ("random", "worst"))
    assert cells(field, np.array([-1.0, -2.0, np.nan, 0.0, 7.0])) == ["random", "worst", None, 0, 7]
    assert cells(field, np.array([-2, 3])) == ["worst", 3]


def test_a_time_that_may_be_a_list_is_a_number() -> None:
    field = input_field("pipeline.forward_ms")
    assert (field.kind, field.unit) == ("float64", "ms")
    assert field.sentence.startswith("Forward of a micro-batch at a stage")


def test_switches_stay_switches_beside_nulls() -> None:
    field = Field(name="is_extrapolated", kind="bool")
    found = cells(field, np.array([1.0, np.nan, 0.0]))
    assert found == [True, None, False]
    assert [type(cell) for cell in found] == [bool, type(None), bool]
    assert cells(field, np.array([True, False])) == [True, False]


def test_a_label_that_was_not_computed_is_null() -> None:
    assert cells(METHOD, np.array([np.nan, np.nan])) == [None, None]
    assert cells(METHOD, np.array([1.0, np.nan, 0.0])) == ["quadrature", None, "closed_form"]


@pytest.mark.parametrize(
    ("path", "kind", "unit"),
    [
        ("failures.detection_s", "float64", "s"),
        ("failures.asynchronous_checkpoint", "enum", ""),
        ("synchronization.count", "int64", "GPUs"),
        ("synchronization.kind", "enum", ""),
        ("variability.node.kind", "enum", ""),
        ("variability.episodes.mean_hours", "float64", "hours"),
        ("scaling.reference_num_gpus", "int64", "GPUs"),
        ("total_steps", "int64", "steps"),
        ("period_days", "int64", "days"),
        ("slow_groups.1.count", "int64", "GPUs"),
    ],
)
def test_an_input_is_a_field_by_its_declaration(path: str, kind: str, unit: str) -> None:
    field = input_field(path)
    assert (field.name, field.kind, field.unit) == (path, kind, unit)


def test_nan_is_null_and_an_infinity_does_not_leave() -> None:
    field = Field(name="gpu_hours_lost", kind="float64")
    assert cells(field, np.array([0.1, np.nan])) == [0.1, None]
    assert cells(field, np.array([0.1])) == [0.1]
    with pytest.raises(ValueError, match="gpu_hours_lost holds an infinity"):
        cells(field, np.array([1.0, -np.inf]))
