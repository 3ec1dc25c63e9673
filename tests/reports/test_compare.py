from decimal import Decimal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.changes import Change
from service.reports.compare import ComparisonPage, Cursor, Order, page, parse_order
from service.reports.join import Joined, Side, SideItem, join
from service.reports.pricing import PricedWindow, RateLine
from service.reports.totals import summary

NAN = float("nan")


def window(price: str) -> PricedWindow:
    return PricedWindow(lines=(RateLine(rate_id="r", price=Decimal(price), days=30),))


def side(
    lost: list[float], *, ideal_ms: float = 410.0, price: str = "1.00", currency: str | None = "EUR"
) -> Side:
    """One item; point n is on 2^n GPUs, with 1 000 GPU-hours available."""
    points = len(lost)
    return Side(
        items=(SideItem(name="slow", profile="p", headline=0, window=window(price)),),
        item=np.zeros(points, dtype=np.int64),
        axes={"num_gpus": 2 ** np.arange(points)},
        values={
            "gpu_hours_lost": np.array(lost),
            "gpu_hours_available": np.full(points, 1000.0),
            "ideal_step_ms": np.full(points, ideal_ms),
        },
        currency=currency,
    )


def joined_of(past: list[float], new: list[float]) -> Joined:
    return join(side(past), side(new))


LOST = "gpu_hours_lost"


def test_a_row_shows_both_sides_and_the_change() -> None:
    (row,) = page(joined_of([200.0], [150.0]), size=10).items
    assert row.key == {"name": "slow", "profile": "p", "num_gpus": 1}
    assert (row.past[LOST], row.new[LOST]) == (200.0, 150.0)
    assert (row.difference[LOST], row.relative[LOST]) == (-50.0, -0.25)
    assert row.difference["ideal_step_ms"] == 0.0
    assert row.ideal_changed is False
    assert row.lost_split is None
    assert row.cost_of_loss.volume_effect is not None
    assert row.cost_of_loss.volume_effect.amount == "-50.00"
    assert (row.past_point, row.new_point) == (0, 0)


def test_a_moved_ideal_is_flagged_and_split() -> None:
    (row,) = page(join(side([200.0]), side([250.0], ideal_ms=300.0)), size=1).items
    assert row.ideal_changed is True
    split = row.lost_split
    assert split is not None
    # excess 102.5 -> 100 ms: 100/510 of 1 000 against the old ideal, then 100/400
    assert split.gpu_hours_excess == pytest.approx(1000 * (100 / 510 - 0.2))
    assert split.gpu_hours_ideal == pytest.approx(1000 * (0.25 - 100 / 510))
    assert split.gpu_hours_not_useful is None


def test_failed_points_are_null_and_documents_are_json() -> None:
    found = page(joined_of([NAN], [1.0]), size=1)
    assert found.items[0].past[LOST] is None
    assert found.items[0].difference[LOST] is None
    assert found.items[0].cost_of_loss.status == "not_computed"
    assert msgspec.json.decode(msgspec.json.encode(found), type=ComparisonPage) == found


def test_withheld_rows_show_no_money() -> None:
    (row,) = page(joined_of([1.0], [2.0]), size=1, withhold=True).items
    assert row.cost_of_loss.status == "withheld"
    assert row.cost_of_loss.past is None


def everything(joined: Joined, order: Order | None, size: int) -> list[int]:
    """Points of all pages, one page after the other."""
    found: list[int] = []
    after: Cursor | None = None
    for _ in range(joined.num_rows + 1):
        shown = page(joined, size=size, order=order, after=after)
        assert len(shown.items) <= size
        found += [row.past_point for row in shown.items]
        after = shown.next_cursor
        if after is None:
            return found
        after = msgspec.json.decode(msgspec.json.encode(after), type=Cursor)
    raise AssertionError("the pages do not end")


FEW = st.sampled_from([NAN, -2.0, 0.0, 1.0, 3.0])


@given(
    rows=st.lists(st.tuples(FEW, FEW), max_size=12),
    part=st.sampled_from(["past", "new", "difference", "magnitude", "relative"]),
    descending=st.booleans(),
    column=st.sampled_from([LOST, "cost_of_loss"]),
    size=st.integers(1, 5),
)
def test_pages_hold_every_row_once_in_order(
    rows: list[tuple[float, float]],
    part: str,
    descending: bool,  # noqa: FBT001 - drawn
    column: str,
    size: int,
) -> None:
    joined = joined_of([past for past, _ in rows], [new for _, new in rows])
    order = parse_order(f"{'-' * descending}{part}.{column}", [LOST], with_cost=True)

    def number(place: int) -> float:
        past, new = rows[place]
        difference = new - past
        relative = difference / abs(past) if past else NAN
        numbers = {"past": past, "new": new, "difference": difference, "relative": relative}
        return {**numbers, "magnitude": abs(difference)}[part]

    def rank(place: int) -> tuple[bool, float, int]:
        value = number(place)
        if np.isnan(value):
            return True, 0.0, place
        return False, -value if descending else value, place

    assert everything(joined, order, size) == sorted(range(len(rows)), key=rank)
    assert everything(joined, None, size) == list(range(len(rows)))


def test_costs_in_two_currencies_have_an_order_but_no_difference() -> None:
    joined = join(side([1.0, 2.0]), side([5.0, 4.0], currency="USD"))
    by_new = Order(part="new", column="cost_of_loss")
    assert everything(joined, by_new, 5) == [1, 0]
    for part in ("difference", "magnitude", "relative"):
        order = parse_order(f"-{part}.cost_of_loss", [LOST], with_cost=True)
        assert everything(joined, order, 5) == [0, 1]


def test_costs_without_a_currency_keep_the_order_of_the_baseline() -> None:
    joined = join(side([2.0, 1.0], currency=None), side([5.0, 4.0]))
    assert everything(joined, Order(part="past", column="cost_of_loss"), 5) == [0, 1]


def test_an_order_is_read_from_its_text() -> None:
    assert parse_order("-difference.gpu_hours_lost", [LOST]) == Order(
        part="difference", column=LOST, descending=True
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu_hours_lost", "orders by 'gpu_hours_lost', but rows are ordered by one of past"),
        ("--past.gpu_hours_lost", "orders by '-past'"),
        ("past.cost_of_loss", "'cost_of_loss', which is none of gpu_hours_lost"),
        ("past", "orders by '', which is none of"),
    ],
)
def test_an_unknown_order_is_refused_with_what_there_is(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_order(text, [LOST])


def test_a_page_has_a_row() -> None:
    with pytest.raises(ValueError, match="size is 0"):
        page(joined_of([1.0], [1.0]), size=0)


def test_a_grid_is_not_summed_but_its_headline_is() -> None:
    found = summary(joined_of([200.0, 400.0], [150.0, 300.0]))
    assert found.gpu_hours_lost == Change(past=200.0, new=150.0, difference=-50.0, relative=-0.25)
