"""Pareto factors and their maxima against Gamma functions."""

import numpy as np
import pytest
from scipy import special

from service.model.laws.pareto import Pareto
from service.model.slowest.barrier import PROBABILITIES, Groups, slowest_of

CVS = [1e-3, 0.05, 0.3, 1.0, 2.0, 3.0]
SIZES = np.array([2.0, 3, 8, 64, 1024, 16_384, 131_072, 1e7])


def power(cv: float) -> float:
    return float(1 + np.sqrt(1 + cv**-2))


@pytest.mark.parametrize("cv", CVS)
def test_the_variance_is_a_paretos(cv: float) -> None:
    a = Pareto.tail_power(np.full((2, 1), cv))[0]
    minimum = Pareto.lower_quantile(np.full(1, -1e3), np.full((2, 1), cv))[0]
    assert minimum * a / (a - 1) == pytest.approx(1, rel=1e-14)
    assert minimum**2 * a / (a - 2) - 1 == pytest.approx(cv**2, rel=1e-9)


@pytest.mark.parametrize("cv", CVS)
def test_maxima_are_gamma_functions(cv: float) -> None:
    # E[max of n] = minimum n B(n, 1 - 1 / a): David and Nagaraja, Order Statistics, section 3.1.
    a = power(cv)
    shape = np.full((2, len(SIZES)), cv)
    found = slowest_of(Groups(Pareto, SIZES[np.newaxis], np.ones((1, len(SIZES))), shape))
    # poch(n, c) = Gamma(n + c) / Gamma(n) without the difference of two large logarithms.
    ratio = special.gamma(1 - 1 / a) * SIZES / special.poch(SIZES, 1 - 1 / a)
    assert found.mean == pytest.approx((a - 1) / a * ratio, rel=1e-9)
    wanted = [
        [(a - 1) / a * (-np.expm1(np.log(p) / size)) ** (-1 / a) for p in PROBABILITIES]
        for size in SIZES
    ]
    assert found.quantiles == pytest.approx(np.array(wanted), rel=1e-11)


@pytest.mark.parametrize(
    ("size", "published"),
    [(1, 1.4999999999999998), (64, 5.425875260216728), (1024, 13.650134541027848)],
)
def test_maxima_of_independent_code(size: int, published: float) -> None:
    # Of a Pareto with a = 3 and minimum 1; ours has the minimum 2/3.
    cv = 1 / np.sqrt(3)
    found = slowest_of(
        Groups(Pareto, np.full((1, 1), float(size)), np.ones((1, 1)), np.full((2, 1), cv))
    )
    assert found.mean[0] == pytest.approx(published * 2 / 3, rel=1e-9)
