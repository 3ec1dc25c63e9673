"""Money of reports, against decimals worked out by hand."""

from decimal import Decimal
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from service.reports.money import CostStatus, Money
from service.reports.report_costs import USEFUL, changes_of, costs_of, costs_of_causes, own_costs_of
from service.reports.report_sides import ReportedItem, paired
from tests.reports.report_rows import item, missing, point, side, window


def euros(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def losing(custom_id: str, lost: float, price: str = "2.00", **changes: object) -> ReportedItem:
    days = changes.get("period_days", 30)
    assert isinstance(days, int)
    return item(
        custom_id, found=point(gpu_hours_lost=lost), window=window((price, days)), **changes
    )


def test_items_add_up_to_the_sum_that_is_rounded_once() -> None:
    # 3 x 0.005 is 0.015: half-even 0.02, of which one cent is left over for one of them.
    three = side(*(losing(name, 0.0025) for name in "abc"))
    found = costs_of(three, None)
    assert (found.whole, found.status) == (euros("0.02"), CostStatus.PRICED)
    assert found.exact == Fraction("0.015")
    assert found.of_items == {"a": euros("0.01"), "b": euros("0.01"), "c": euros("0.00")}


def test_costs_are_of_30_days() -> None:
    found = costs_of(side(losing("a", 100.0, period_days=15)), None)
    assert found.whole == euros("400.00")


def test_without_a_price_somewhere_there_is_no_sum() -> None:
    partly = item("p", window=window(("2.00", 20), unpriced=10))
    found = costs_of(side(losing("a", 100.0), partly, missing("m", "failed")), None)
    assert (found.whole, found.status) == (None, CostStatus.PARTLY_PRICED)
    assert found.of_items == {"a": euros("200.00"), "p": None}
    never = item("n", window=window(unpriced=30))
    assert costs_of(side(never, item("w", window=None)), None).status is CostStatus.NO_RATE


def test_what_has_a_rate_is_what_the_loss_costs_at_least() -> None:
    partly = item("p", window=window(("2.00", 20), unpriced=10))
    never = item("n", window=window(unpriced=30))
    no_window = item("w", window=None)
    found = costs_of(side(losing("a", 100.0), partly, never, no_window), None)
    # 100 h x 2.00, and 100 h of which 20 of 30 days cost 2.00
    assert (found.at_least, found.items_unpriced, found.unpriced_days) == (euros("333.33"), 3, 70)
    assert found.exact == Fraction(1000, 3)
    gains = item("g", found=point(gpu_hours_lost=-1.0), window=window(unpriced=30))
    assert costs_of(side(losing("a", 100.0), gains), None).at_least is None
    priced_gain = losing("g", -10.0)
    assert costs_of(side(losing("a", 100.0), priced_gain, never), None).at_least == euros("180.00")
    assert costs_of(side(never), None).at_least is None
    whole = costs_of(side(losing("a", 100.0)), None)
    assert (whole.at_least, whole.items_unpriced, whole.unpriced_days) == (whole.whole, 0, 0)
    without = costs_of(side(never, currency=None), None)
    assert (without.at_least, without.items_unpriced, without.unpriced_days) == (None, None, None)


def test_without_a_currency_or_items_nothing_has_a_cost() -> None:
    found = costs_of(side(losing("a", 100.0), currency=None), None)
    assert (found.whole, found.status, found.of_items) == (None, CostStatus.NO_RATE, {"a": None})
    assert costs_of(side(missing("m", "failed")), None).status is CostStatus.NO_RATE


def test_an_item_costs_what_its_change_says() -> None:
    past = side(losing("a", 0.0025), losing("b", 0.0075), losing("c", 0.0026))
    new = side(losing("a", 0.0026), losing("b", 0.0025), losing("c", 0.0025))
    changes = changes_of(paired(past, new).pairs, past, new)
    found = costs_of(new, changes)
    assert changes.whole.new == found.whole == euros("0.02")
    assert found.of_items == {name: changes.of_items[name].new for name in "abc"}
    shown = [amount for amount in found.of_items.values() if amount is not None]
    assert sum(Decimal(amount.amount) for amount in shown) == Decimal("0.02")


def test_an_item_costs_what_it_does_rounded_up_or_down_whatever_moved() -> None:
    """Not what is left of two roundings: `c` costs a cent."""
    past = side(*map(losing, "abcd", (1.1, 0.2, 0.9, 0.9), ("0.01", "0.03", "0.01", "0.01")))
    new = side(*map(losing, "abcd", (0.5, 2.3, 0.5, 3.8), ("0.03", "0.03", "0.02", "0.01")))
    changes = changes_of(paired(past, new).pairs, past, new)
    amounts = [changes.of_items[name].new for name in "abcd"]
    assert amounts == [euros("0.01"), euros("0.07"), euros("0.01"), euros("0.04")]
    assert [*costs_of(new, changes).of_items.values()] == amounts


def test_items_that_came_keep_their_own_share() -> None:
    past, new = side(losing("a", 10.0)), side(losing("a", 20.0), losing("b", 5.0))
    changes = changes_of(paired(past, new).pairs, past, new)
    assert changes.whole.difference == euros("20.00")
    assert costs_of(new, changes).of_items == {"a": euros("40.00"), "b": euros("10.00")}


def test_a_change_is_split_into_hours_and_prices() -> None:
    past, new = side(losing("a", 100.0, "2.00")), side(losing("a", 110.0, "2.50"))
    change = changes_of(paired(past, new).pairs, past, new).whole
    # 10 more hours at the past price, and 110 hours that cost 0.50 more
    assert (change.volume_effect, change.price_effect) == (euros("20.00"), euros("55.00"))
    assert (change.past, change.new) == (euros("200.00"), euros("275.00"))


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 60)), min_size=1, max_size=6
    )
)
@example([(2.0, 5.7959926672785945e-282, 12)])
def test_causes_add_up_to_what_is_not_useful(rows: list[tuple[float, float, int]]) -> None:
    items = [
        item(
            str(place),
            period_days=days,
            found=point(gpu_hours_transient=waited, gpu_hours_communication=exchanged),
            window=window(("2.105", days)),
        )
        for place, (waited, exchanged, days) in enumerate(rows)
    ]
    found = costs_of_causes(side(*items))
    # Exact: next to half a cent the 28 digits of a Decimal are too few.
    by_hand = sum(
        Fraction(repr(hours * (30 / days)))
        for waited, exchanged, days in rows
        for hours in (waited, exchanged)
    ) * Fraction("2.105")
    shown = sum(Decimal(amount.amount) for name, amount in found.items() if name != USEFUL)
    assert shown == Decimal(round(by_hand * 100)).scaleb(-2)
    assert found["gpu_hours_spares"] == euros("0.00")


CENT = Decimal("0.01")
ROWS = st.lists(
    st.tuples(
        st.floats(-1e6, 1e6, allow_nan=False),
        st.sampled_from(["0.01", "2.105", "0.333333"]),
        st.sampled_from([1, 7, 30, 31]),
    ),
    max_size=12,
)


@given(ROWS)
@example([(0.0025, "2.00", 7)] * 3)
def test_windows_that_are_equally_long_add_up_whatever_their_length(
    rows: list[tuple[float, str, int]],
) -> None:
    """Against fractions: each is its own cost rounded up or down, all are their sum rounded."""
    items = [
        losing(str(place), hours, price, period_days=days)
        for place, (hours, price, days) in enumerate(rows)
    ]
    whole = side(*items)
    own = own_costs_of(whole, costs_of(whole, None))
    assert len(own) == len(rows)
    by_length: dict[int, list[tuple[Fraction, Decimal]]] = {}
    for place, (hours, price, days) in enumerate(rows):
        shown = own[str(place)]
        assert shown is not None
        exact = Fraction(repr(hours)) * Fraction(price)
        by_length.setdefault(days, []).append((exact, Decimal(shown.amount)))
    for parts in by_length.values():
        assert all(abs(Fraction(amount) - exact) <= Fraction(CENT) for exact, amount in parts)
    for days, parts in by_length.items():
        # Of 30 days they are shares of the whole, which has windows of other lengths in it.
        if days != 30 or len(by_length) == 1:
            total = Fraction(sum(amount for _, amount in parts))
            assert abs(total - sum(exact for exact, _ in parts)) <= Fraction(CENT) / 2


def test_where_one_of_its_length_has_no_price_each_window_stands_alone() -> None:
    unpriced = item("n", window=window(unpriced=7), period_days=7)
    three = side(*(losing(name, 0.0025, period_days=7) for name in "abc"), unpriced)
    nothing = euros("0.00")
    found = own_costs_of(three, costs_of(three, None))
    assert found == {"a": nothing, "b": nothing, "c": nothing, "n": None}
    none = side(losing("a", 100.0, period_days=7), currency=None)
    assert own_costs_of(none, costs_of(none, None)) == {"a": None}
