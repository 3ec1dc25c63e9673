import math

import numpy as np
import pytest
from scipy import stats

from service.calibration.intervals import (
    Ends,
    MeanSquare,
    combined_dof,
    cv_estimate,
    difference_interval,
    excess_kurtosis_of,
    kurtosis_dof,
    mean_estimate,
    positive_mean_estimate,
    probability_estimate,
    variance_interval,
)


def test_one_mean_square_is_the_chi_square_interval() -> None:
    low, high = variance_interval(MeanSquare(4.0, 9), 0.9)
    assert low == pytest.approx(9 * 4 / stats.chi2.ppf(0.95, 9), rel=1e-9)
    assert high == pytest.approx(9 * 4 / stats.chi2.ppf(0.05, 9), rel=1e-9)


def test_less_a_known_square_it_is_that_interval_shifted() -> None:
    low, high = difference_interval(MeanSquare(4.0, 9), MeanSquare(0.5, 1e12), 0.9)
    assert low == pytest.approx(9 * 4 / stats.chi2.ppf(0.95, 9) - 0.5, rel=1e-6)
    assert high == pytest.approx(9 * 4 / stats.chi2.ppf(0.05, 9) - 0.5, rel=1e-6)
    assert difference_interval(MeanSquare(4.0, 9), MeanSquare(0.0, 5), 0.9) == variance_interval(
        MeanSquare(4.0, 9), 0.9
    )


def test_a_first_square_below_the_second_starts_at_nothing() -> None:
    low, high = difference_interval(MeanSquare(1.0, 5), MeanSquare(1.2, 50), 0.9)
    assert low == 0
    assert high > 0
    assert difference_interval(MeanSquare(0.01, 5), MeanSquare(1.0, 50), 0.9) == (0, 0)


@pytest.mark.parametrize(("first_dof", "second_dof", "ratio"), [(7, 133, 3.0), (3, 12, 2.0)])
def test_a_difference_keeps_its_rate(first_dof: int, second_dof: int, ratio: float) -> None:
    rng = np.random.default_rng(7)
    first = ratio * rng.chisquare(first_dof, 800) / first_dof
    second = rng.chisquare(second_dof, 800) / second_dof
    hits = 0
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        low, high = difference_interval(
            MeanSquare(one, first_dof), MeanSquare(other, second_dof), 0.9
        )
        hits += low <= ratio - 1 <= high
    # 0.9 within three standard errors, and the two points that the method may be off
    assert 0.9 - 0.032 < hits / 800 < 0.9 + 0.032 + 0.02


def test_students_interval_and_its_open_form() -> None:
    found = mean_estimate(10.0, 1.0, 4, 0.9)
    assert found.high == pytest.approx(10 + stats.t.ppf(0.95, 4), rel=1e-9)
    assert mean_estimate(10.0, 1.0, 0.5, 0.9).low is None
    assert mean_estimate(10.0, math.inf, 5, 0.9).high is None
    assert positive_mean_estimate(1.0, 1.0, 4, 0.9).low == 0
    assert positive_mean_estimate(10.0, 1.0, 4, 0.9).low == mean_estimate(10.0, 1.0, 4, 0.9).low


def test_clopper_and_pearson() -> None:
    # 5 of 20 at 95 %: 0.0866 … 0.4910, as tables and R's binom.test print it
    found = probability_estimate(5, 20, 0.95)
    assert found.low == pytest.approx(0.08657147, rel=1e-6)
    assert found.high == pytest.approx(0.49104587, rel=1e-6)
    assert probability_estimate(0, 10, 0.9).low == 0
    assert probability_estimate(0, 10, 0.9).high == pytest.approx(1 - 0.05**0.1, rel=1e-9)
    assert probability_estimate(10, 10, 0.9).high == 1


def test_satterthwaite_and_kurtosis() -> None:
    assert combined_dof([(2.0, 10), (2.0, 10)]) == pytest.approx(20)
    assert combined_dof([(0.0, 10)]) > 1e6
    assert kurtosis_dof(99, 0.0, 100) == pytest.approx(99)
    # Var(s²) = s⁴ (2/99 + 3/100)
    assert kurtosis_dof(99, 3.0, 100) == pytest.approx(2 / (2 / 99 + 3 / 100))
    assert excess_kurtosis_of(np.ones(20)) == 0
    assert excess_kurtosis_of(np.arange(5.0)) == 0
    sample = np.random.default_rng(1).exponential(size=50)
    assert excess_kurtosis_of(sample) == pytest.approx(stats.kurtosis(sample, bias=False))


def test_a_cv_of_nothing_starts_at_nothing() -> None:
    found = cv_estimate(0.0, Ends(0.0, 0.04), "chi_square")
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(0.2)
    wide = cv_estimate(0.01, Ends(0.0, 0.04), "chi_square")
    assert wide.value == pytest.approx(0.1)
    assert wide.low == 0
