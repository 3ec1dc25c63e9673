"""The exponent of a Weibull factor against Gamma's infinite product, and its moments."""

import numpy as np
import pytest
from scipy import special, stats

from service.model.laws.weibull import Weibull, inverse_exponent
from tests.model.reference import weibull_exponent


@pytest.mark.parametrize("cv", [1e-12, 1e-9, 1e-6, 1e-4, 0.01, 0.05, 0.062, 0.2, 0.5, 0.9, 1.0])
def test_exponents_solve_for_the_cv(cv: float) -> None:
    found = inverse_exponent(np.array([cv]))[0]
    assert found == pytest.approx(1 / weibull_exponent(cv), rel=5e-15)


def test_a_tiny_cv_has_gumbels() -> None:
    # log X is a Gumbel variable over k, whose standard deviation is pi / sqrt(6).
    cv = np.array([1e-12, 1e-8])
    assert inverse_exponent(cv) == pytest.approx(cv * np.sqrt(6) / np.pi, rel=2e-8)


def test_a_cv_of_one_is_exponential() -> None:
    assert inverse_exponent(np.ones(1))[0] == pytest.approx(1, rel=1e-15)
    q = np.array([0.9, 0.1, 1e-9, 1e-300])
    assert Weibull.upper_quantile(q, np.ones((2, 1))) == pytest.approx(-np.log(q), rel=1e-13)


@pytest.mark.parametrize("cv", [0.02, 0.3, 0.8])
def test_moments_are_gammas(cv: float) -> None:
    u = inverse_exponent(np.array([cv]))[0]
    second = special.gamma(1 + 2 * u) / special.gamma(1 + u) ** 2
    assert second - 1 == pytest.approx(cv**2, rel=1e-11)
    assert stats.weibull_min(1 / u).std() / stats.weibull_min(1 / u).mean() == pytest.approx(
        cv, rel=1e-9
    )


def test_far_below_and_above_no_number_overflows() -> None:
    x = np.array([1e-300, 0.5, 1.5, 1e300])
    rate = Weibull.rate(x, np.full((2, 1), 1e-6))
    assert rate[:2] == pytest.approx(-np.log(2.0**-53), rel=1e-12)
    assert rate[2:].max() < 1e-300
