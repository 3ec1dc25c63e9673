from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from service.reports.compare import Order
from service.reports.export_comparison import comparison_chunks, comparison_fields
from service.reports.export_fields import Chunk, cells
from service.reports.join import Floats, Ints, Joined, Labelled, Side, SideItem, join
from service.reports.pricing import PricedWindow, RateLine

NAN = float("nan")
COLUMNS = ("gpu_hours_lost", "gpu_hours_available", "gpu_hours_not_useful", "ideal_step_ms")


def window(price: str | None) -> PricedWindow:
    if price is None:
        return PricedWindow(lines=(), unpriced_days=30)
    return PricedWindow(lines=(RateLine(rate_id="r", price=Decimal(price), days=30),))


def side(
    lost: list[float],
    axes: Mapping[str, Ints | Floats | Labelled],
    *,
    currency: str | None = "EUR",
    price: str | None = "2.00",
    ideal_ms: float = 410.0,
) -> Side:
    numbers = np.array(lost)
    values = {
        "gpu_hours_lost": numbers,
        "gpu_hours_available": np.full(len(lost), 1000.0),
        "gpu_hours_not_useful": numbers + 1,
        "ideal_step_ms": np.full(len(lost), ideal_ms),
    }
    return Side(
        items=(SideItem(name="=slow", profile=None, window=window(price)),),
        item=np.zeros(len(lost), dtype=np.int64),
        axes=axes,
        values=values,
        currency=currency,
    )


def sizes(*numbers: float) -> dict[str, Ints | Floats | Labelled]:
    return {"num_gpus": np.array(numbers, dtype=np.int64)}


def table(joined: Joined, order: Order | None = None, chunk_rows: int = 2) -> dict[str, list[Any]]:
    """The exported columns as they stand in JSON."""
    fields = comparison_fields(joined)
    chunks: list[Chunk] = list(comparison_chunks(joined, order, chunk_rows=chunk_rows))
    assert all(set(chunk) == {field.name for field in fields} for chunk in chunks)
    return {
        field.name: [cell for chunk in chunks for cell in cells(field, chunk[field.name])]
        for field in fields
    }


def test_rows_are_pairs_with_their_change() -> None:
    found = table(join(side([10.0, 20.0, NAN], sizes(1, 2, 3)), side([0.0, 30.0], sizes(3, 2))))
    assert found["num_gpus"] == [2, 3]
    assert (found["past_point"], found["new_point"]) == ([1, 2], [1, 0])
    assert found["past.gpu_hours_lost"] == [20.0, None]
    assert found["new.gpu_hours_lost"] == [30.0, 0.0]
    assert found["difference.gpu_hours_lost"] == [10.0, None]
    assert found["relative.gpu_hours_lost"] == [0.5, None]
    assert found["name"] == ["=slow", "=slow"]
    assert found["past.cost_of_loss"] == ["40.00", None]
    assert found["difference.cost_of_loss"] == ["20.00", None]
    assert found["relative.cost_of_loss"] == [0.5, None]
    assert found["cost_status"] == ["priced", "not_computed"]
    assert found["past.currency"] == ["EUR", None]


def test_a_moved_ideal_is_split_and_an_unmoved_one_is_not() -> None:
    past = side([100.0], sizes(1))
    moved = table(join(past, side([100.0], sizes(1), ideal_ms=205.0)))
    assert moved["ideal_changed"] == [True]
    assert moved["lost_split.gpu_hours_available"] == [0.0]
    parts = [moved[f"lost_split.gpu_hours_{name}"][0] for name in ("excess", "ideal")]
    # Half the ideal, the same share lost: half the excess over half the yardstick.
    assert sum(parts) == pytest.approx(0.0, abs=1e-9)
    assert parts[0] < -40
    still = table(join(past, side([150.0], sizes(1))))
    assert still["ideal_changed"] == [False]
    assert still["lost_split.gpu_hours_excess"] == [None]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (None, [1, 2, 3, 4, 5]),
        (Order(part="difference", column="gpu_hours_lost"), [4, 1, 3, 5, 2]),
        (Order(part="difference", column="gpu_hours_lost", descending=True), [5, 1, 3, 4, 2]),
        (Order(part="magnitude", column="gpu_hours_lost"), [4, 1, 3, 5, 2]),
    ],
)
def test_rows_come_in_the_order_asked_for(order: Order | None, expected: list[int]) -> None:
    joined = join(
        side([1.0] * 5, sizes(1, 2, 3, 4, 5)),
        side([2.0, NAN, 2.0, 0.5, 9.0], sizes(1, 2, 3, 4, 5)),
    )
    for chunk_rows in (2, 100):
        assert table(joined, order, chunk_rows)["num_gpus"] == expected


@pytest.mark.parametrize(
    ("past", "new", "status"),
    [
        (("EUR", "2.00"), ("EUR", None), "no_rate"),
        ((None, "2.00"), ("EUR", "3.00"), "no_rate"),
        ((None, None), (None, None), "no_rate"),
        (("EUR", "2.00"), ("USD", "3.00"), "currencies_differ"),
    ],
)
def test_a_side_without_a_price_has_no_difference(
    past: tuple[str | None, str | None], new: tuple[str | None, str | None], status: str
) -> None:
    def priced(lost: list[float], currency: str | None, price: str | None) -> Side:
        return side(lost, sizes(1, 2), currency=currency, price=price)

    found = table(join(priced([1.0, 2.0], *past), priced([3.0, 4.0], *new)))
    assert found["cost_status"] == [status, status]
    assert found["difference.cost_of_loss"] == [None, None]
    expected = ["2.00", "4.00"] if past == ("EUR", "2.00") else [None, None]
    assert found["past.cost_of_loss"] == expected
    assert found["past.currency"] == [text and "EUR" for text in expected]
    assert found["new.currency"] == [new[0] if all(new) else None] * 2


NORMAL = {"kind": "normal", "cv": 0.05}


@pytest.mark.parametrize(
    ("path", "axis", "kind", "expected"),
    [
        ("load_ms", np.array([30, 31]), "float64", [30.0, 31.0]),
        ("num_gpus", np.array([8.0, NAN]), "int64", [8, None]),
        (
            "slow_groups.0.count",
            Labelled(codes=np.array([1, 0]), values=(None, 3)),
            "int64",
            [3, None],
        ),
        (
            "variability.transient.cv",
            Labelled(codes=np.array([0, 1]), values=(0.1, None)),
            "float64",
            [0.1, None],
        ),
        (
            "variability.transient",
            Labelled(codes=np.array([1, 0]), values=(None, NORMAL)),
            "text",
            ['{"kind":"normal","cv":0.05}', None],
        ),
        (
            "variability.transient.kind",
            Labelled(codes=np.array([1, 0]), values=("gamma", "normal")),
            "text",
            ["normal", "gamma"],
        ),
        (
            "variability.transient.kind",
            Labelled(codes=np.array([0, 0]), values=(None,)),
            "text",
            [None],
        ),
        ("some.flag", Labelled(codes=np.array([0, 1]), values=(True, 1)), "text", ["true", "1"]),
    ],
)
def test_keys_are_numbers_texts_or_json(
    path: str, axis: Ints | Floats | Labelled, kind: str, expected: list[Any]
) -> None:
    lost = [1.0, 2.0][: len(expected)]
    taken = axis if len(expected) == 2 else Labelled(codes=np.array([0]), values=(None,))
    one = side(lost, {path: taken})
    joined = join(one, one)
    (field,) = (field for field in comparison_fields(joined) if field.name == path)
    assert field.kind == kind
    assert table(joined)[path] == expected


def test_units_and_sentences_are_those_of_the_columns() -> None:
    one = side([1.0], sizes(1))
    fields = {field.name: field for field in comparison_fields(join(one, one))}
    assert fields["past.gpu_hours_lost"].unit == "GPU-hours"
    assert fields["relative.gpu_hours_lost"].unit == ""
    assert fields["difference.ideal_step_ms"].sentence.endswith("Candidate less baseline.")
    assert fields["num_gpus"].unit == "GPUs"
    assert fields["past.cost_of_loss"].kind == "decimal"
