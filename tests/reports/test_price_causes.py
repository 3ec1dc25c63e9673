"""Which rate moved the money: the effects add up to the price effect shown."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.cost_changes import CostPair, cost_change, cost_changes, withheld_change
from service.reports.loss_report import RateChange
from service.reports.money import Money
from service.reports.price_causes import RateKey, rate_changes
from service.reports.pricing import PricedWindow, RateLine

KEYS = {
    "old": RateKey(gpu_type="H100", cost_center="research"),
    "new": RateKey(gpu_type="H100", cost_center=None),
}


def window(*lines: tuple[str, str, int], unpriced: int = 0) -> PricedWindow:
    return PricedWindow(
        lines=tuple(
            RateLine(rate_id=rate, price=Decimal(price), days=days) for rate, price, days in lines
        ),
        unpriced_days=unpriced,
    )


OLD = window(("old", "2.00", 30))
BOTH = window(("old", "2.00", 15), ("new", "3.005", 15))


def a_pair(
    past: PricedWindow | None = OLD,
    new: PricedWindow | None = BOTH,
    *,
    hours: tuple[float, float] = (100.0, 200.0),
) -> CostPair:
    return CostPair(past_hours=hours[0], new_hours=hours[1], past_window=past, new_window=new)


def shown(changes: list[RateChange]) -> list[tuple[str, int, int, str | None]]:
    return [
        (rate.rate_id, rate.past_days, rate.new_days, rate.effect.amount if rate.effect else None)
        for rate in changes
    ]


def test_a_rate_has_the_effect_of_its_share() -> None:
    cost = cost_change([a_pair()], "EUR", "EUR")
    assert cost.price_effect == Money(amount="100.50", currency="EUR")
    changes = rate_changes([a_pair()], ("EUR", "EUR"), cost, KEYS)
    # 200 h x 3.005 x 1/2 and 200 h x 2.00 x (1/2 - 1)
    assert shown(changes) == [("new", 0, 15, "300.50"), ("old", 30, 15, "-200.00")]
    assert changes[0].price_per_gpu_hour == Money(amount="3.005", currency="EUR")
    assert (changes[0].gpu_type, changes[0].cost_center) == ("H100", None)
    assert changes[1].cost_center == "research"


def test_a_rate_that_did_not_move_has_no_effect() -> None:
    pairs = [a_pair(new=OLD)]
    changes = rate_changes(pairs, ("EUR", "EUR"), cost_change(pairs, "EUR", "EUR"), {})
    assert shown(changes) == [("old", 30, 30, "0.00")]
    assert (changes[0].gpu_type, changes[0].cost_center) == (None, None)


def test_a_correction_has_the_effect_of_the_rate_that_it_corrected() -> None:
    """By hand: 10 of 30 days at 2.20 in place of 2.10 are 200 h x 0.10 / 3, not 200 h x 2.20 / 3.

    The days of the rate that went are still shown; another rate keeps what is its own.
    """
    past = window(("first", "2.10", 10), ("other", "3.00", 20))
    new = window(("third", "2.20", 10), ("other", "3.00", 20))
    keys = {
        "first": RateKey(gpu_type="H100", cost_center=None, superseded_by="second"),
        # Was corrected again before it priced anything
        "second": RateKey(gpu_type="H100", cost_center=None, superseded_by="third"),
        "third": RateKey(gpu_type="H100", cost_center=None),
        "other": RateKey(gpu_type="H100", cost_center=None, superseded_by="elsewhere"),
    }
    pairs = [a_pair(past, new, hours=(100.0, 200.0))]
    cost = cost_change(pairs, "EUR", "EUR")
    changes = rate_changes(pairs, ("EUR", "EUR"), cost, keys)
    assert shown(changes) == [
        ("third", 0, 10, "6.67"),
        ("first", 10, 0, "0.00"),
        ("other", 20, 20, "0.00"),
    ]
    assert cost.price_effect == Money(amount="6.67", currency="EUR")
    assert [rate.corrected_by for rate in changes] == [None, "third", None]
    # The other way round as well: a new view is the baseline, the old one looked at
    back = [a_pair(new, past, hours=(100.0, 200.0))]
    changes = rate_changes(back, ("EUR", "EUR"), cost_change(back, "EUR", "EUR"), keys)
    assert shown(changes) == [
        ("third", 10, 0, "-6.67"),
        ("first", 0, 10, "0.00"),
        ("other", 20, 20, "0.00"),
    ]


def test_hours_that_did_not_move_count_as_unchanged() -> None:
    pairs = [a_pair(hours=(100.0, 100.0 * (1 + 1e-12)))]
    changes = rate_changes(pairs, ("EUR", "EUR"), cost_change(pairs, "EUR", "EUR"), KEYS)
    assert shown(changes) == [("new", 0, 15, "150.25"), ("old", 30, 15, "-100.00")]


@pytest.mark.parametrize(
    ("pair", "rates"),
    [
        (a_pair(new=window(("new", "3.005", 10), unpriced=20)), [("new", 0, 10), ("old", 30, 0)]),
        (a_pair(new=None), [("old", 30, 0)]),
        (a_pair(hours=(100.0, float("nan"))), [("new", 0, 15), ("old", 30, 15)]),
    ],
)
def test_without_a_difference_the_rates_stand_without_effects(
    pair: CostPair, rates: list[tuple[str, int, int]]
) -> None:
    changes = rate_changes([pair], ("EUR", "EUR"), cost_change([pair], "EUR", "EUR"), KEYS)
    assert sorted(shown(changes)) == sorted((*rate, None) for rate in rates)


def test_money_that_may_not_be_seen_has_no_rates() -> None:
    assert rate_changes([a_pair()], ("EUR", "EUR"), withheld_change(), KEYS) == []
    assert rate_changes([a_pair()], (None, None), cost_change([a_pair()], None, None), KEYS) == []


@pytest.mark.parametrize("unpriced", [0, 10])
@pytest.mark.parametrize("others", [[], [a_pair(None, None)]])
def test_rates_keep_the_currency_of_their_side(unpriced: int, others: list[CostPair]) -> None:
    """Also where a day or an item has no price, so that the status says nothing of currencies."""
    pairs = [a_pair(new=window(("new", "3.005", 30 - unpriced), unpriced=unpriced)), *others]
    changes = rate_changes(pairs, ("USD", "EUR"), cost_change(pairs, "USD", "EUR"), KEYS)
    assert shown(changes) == [("new", 0, 30 - unpriced, None), ("old", 30, 0, None)]
    assert [rate.price_per_gpu_hour for rate in changes] == [
        Money(amount="3.005", currency="EUR"),
        Money(amount="2.00", currency="USD"),
    ]
    (only,) = rate_changes(pairs, (None, "EUR"), cost_change(pairs, None, "EUR"), KEYS)
    assert only.rate_id == "new"


@given(
    st.lists(
        st.tuples(st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.integers(0, 30)),
        min_size=1,
        max_size=40,
    )
)
def test_effects_add_up_to_the_price_effect_of_any_sum(
    rows: list[tuple[float, float, int]],
) -> None:
    """Also where many rounded rows leave the sum some minor units off."""
    pairs = [
        a_pair(
            OLD,
            window(("old", "2.00", days), ("new", "3.005", 30 - days)),
            hours=(past, new),
        )
        for past, new, days in rows
    ]
    cost, _ = cost_changes([[pair] for pair in pairs], "EUR", "EUR")
    changes = rate_changes(pairs, ("EUR", "EUR"), cost, KEYS)
    assert cost.price_effect is not None
    effects = [Fraction(rate.effect.amount) for rate in changes if rate.effect]
    assert len(effects) == len(changes)
    assert sum(effects) == Fraction(cost.price_effect.amount)
