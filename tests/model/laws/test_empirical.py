"""Tables of quantiles: the declaration, and the law against straight lines."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from service.model.laws.empirical import (
    MAX_QUANTILES,
    Empirical,
    Table,
    observed_share,
    table_of,
)
from service.model.laws.law import Floats

ANY = np.zeros((2, 1))
TABLES = [
    (0.0, 1.0),
    (1.0, 1.0, 3.0),
    (1.0, 3.0, 3.0),
    (0.5, 0.5, 0.5, 2.0, 2.0, 7.0),
    tuple(np.exp(0.3 * stats.norm.ppf(np.linspace(0.001, 0.999, 101))).tolist()),
]


def scaled(quantiles: tuple[float, ...]) -> Floats:
    """The quantiles over the mean of the straight lines between them."""
    values = np.array(quantiles)
    return np.asarray(values / np.trapezoid(values, dx=1 / (len(values) - 1)), dtype=np.float64)


def sent(**values: object) -> Empirical:
    return msgspec.convert({"kind": "empirical", **values}, Empirical)


def test_documents_hold_the_quantiles() -> None:
    declared = sent(quantiles=[1, 2.5])
    assert declared == Empirical(quantiles=(1.0, 2.5))
    assert not declared.allow_extrapolation
    assert msgspec.to_builtins(declared) == {
        "kind": "empirical",
        "quantiles": (1.0, 2.5),
        "allow_extrapolation": False,
    }


@pytest.mark.parametrize(
    ("quantiles", "rule"),
    [
        ([], "length >= 2"),
        ([1.0], "length >= 2"),
        ([1.0] * (MAX_QUANTILES + 1), "length <= 10001"),
        ([-1.0, 2.0], ">= 0.0"),
        ([1.0, 1e13], "<= 1000000000000.0"),
        ([0.0, 0.0], "must not all be 0"),
        ([1.0, 3.0, 2.0, 1.0], "must not decrease: item 2 is 2.0, below 3.0"),
    ],
)
def test_other_lists_are_refused(quantiles: list[float], rule: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=rule):
        sent(quantiles=quantiles)


def test_the_tail_is_as_long_as_the_table() -> None:
    assert observed_share((1.0, 2.0, 3.0)) == 0.5
    assert table_of((1.0, 2.0, 3.0)).num_observations == 2
    assert table_of((1.0, 2.0, 3.0)) is table_of((1.0, 2.0, 3.0))


@pytest.mark.parametrize("quantiles", TABLES)
def test_quantiles_are_straight_lines_with_mean_one(quantiles: tuple[float, ...]) -> None:
    table = Table(quantiles)
    p = np.linspace(0, 1, 1001)
    wanted = np.interp(p, np.linspace(0, 1, len(quantiles)), scaled(quantiles))
    assert table.upper_quantile(1 - p, ANY) == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    assert table.lower_quantile(log_p, ANY) == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    z = stats.norm.ppf(p[1:-1])
    assert table.at_score(z, ANY) == pytest.approx(wanted[1:-1], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("quantiles", TABLES)
def test_the_cv_is_that_of_the_straight_lines(quantiles: tuple[float, ...]) -> None:
    p = (np.arange(1_000_000) + 0.5) / 1_000_000
    x = np.interp(p, np.linspace(0, 1, len(quantiles)), scaled(quantiles))
    assert Table(quantiles).cv == pytest.approx(x.std(), rel=1e-8)
    assert x.mean() == pytest.approx(1, rel=1e-9)


def test_equal_quantiles_vary_by_nothing() -> None:
    assert Table((3.0, 3.0, 3.0)).cv == 0
    assert Table((3.0, 3.0, 3.0)).knots.tolist() == [1, 1, 1]


def test_the_far_upper_tail_is_exact() -> None:
    table = Table((1.0, 2.0, 5.0))
    q = np.array([1e-3, 1e-9])
    x = table.upper_quantile(q, ANY)
    top, slope = table.knots[-1], 2 * (table.knots[-1] - table.knots[-2])
    assert top - x == pytest.approx(q * slope, rel=1e-6)
    near = np.array([1e-3, 1e-6])
    rate = table.rate(table.upper_quantile(near, ANY), ANY)
    assert rate == pytest.approx(-np.log1p(-near), rel=1e-9)


def test_jumps_are_taken_at_their_place() -> None:
    # Half of all are exactly at the middle value.
    table = Table((0.0, 1.0, 1.0, 2.0))
    rate = table.rate(np.array([1 - 1e-9, 1, 1 + 1e-9]), ANY)
    assert np.exp(-rate) == pytest.approx([1 / 3, 2 / 3, 2 / 3], rel=1e-8)


@pytest.mark.parametrize("quantiles", TABLES)
def test_rates_and_slopes_are_those_of_the_lines(quantiles: tuple[float, ...]) -> None:
    table = Table(quantiles)
    knots = table.knots
    wide = np.diff(knots) > 0
    middles = ((knots[1:] + knots[:-1]) / 2)[wide]
    below = ((np.arange(len(wide)) + 0.5) / len(wide))[wide]
    rate, slope = table.rate_and_slope(1.25 * middles, np.full(1, 1.25), ANY)
    assert rate == pytest.approx(-np.log(below), rel=1e-12)
    density = 1 / (len(wide) * np.diff(knots)[wide])
    assert slope == pytest.approx(-density / 1.25 / below, rel=1e-12)
    total = np.full((1, len(middles)), 0.5)
    table.add_rate(1.25 * middles[np.newaxis], np.full(1, 1.25), ANY, np.full(1, 3.0), total)
    assert total[0] == pytest.approx(0.5 - 3 * np.log(below), rel=1e-12)


def test_outside_of_the_table_nothing_changes() -> None:
    rate, slope = Table((1.0, 2.0)).rate_and_slope(np.array([-1.0, 0.1, 9.0]), np.ones(1), ANY)
    assert rate == pytest.approx([-np.log(2.0**-53)] * 2 + [0], rel=1e-12)
    assert slope.tolist() == [0, 0, 0]


def test_it_is_integrated_in_itself() -> None:
    x = np.array([0.5, 2.0])
    table = Table((1.0, 2.0))
    assert table.warp(x) is x
    assert table.unwarp(x) is x
    assert table.share_below(x, np.array([0.0, 1.0])) == pytest.approx([1, np.exp(-1)])
    assert table.quadrature().num_nodes == 44
    assert table.tail_power(ANY) is None


@given(
    quantiles=st.lists(st.floats(0, 100), min_size=2, max_size=12).map(sorted),
    scores=st.lists(st.floats(-8, 8), min_size=2, max_size=2).map(sorted),
    unit=st.floats(1e-9, 1e9),
)
def test_larger_scores_are_larger_factors_in_any_unit(
    quantiles: list[float], scores: list[float], unit: float
) -> None:
    values = tuple(value + 0.01 for value in quantiles)
    z = np.array(scores)
    x = Table(values).at_score(z, ANY)
    assert x[0] <= x[1] * (1 + 1e-15)
    other = Table(tuple(value * unit for value in values)).at_score(z, ANY)
    assert other == pytest.approx(x, rel=1e-12)
