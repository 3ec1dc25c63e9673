"""Gamma factors with a skewness of their own, against Pearson's type III and its special cases."""

import numpy as np
import pytest
from scipy import stats

from service.model.laws.exponential import Exponential
from service.model.laws.gamma import Gamma
from service.model.laws.law import Floats
from service.model.laws.normal import Normal
from service.model.laws.shifted_gamma import ShiftedGamma, lowest

Q = np.array([0.999, 0.5, 1e-3, 1e-9, 1e-30])


def shape(cv: float, skew: float) -> Floats:
    return np.array([[cv], [skew]])


@pytest.mark.parametrize(("cv", "skew"), [(0.05, 0.4), (0.2, 1.0), (0.3, 3.0)])
def test_it_is_pearsons_third(cv: float, skew: float) -> None:
    pearson = stats.pearson3(skew, loc=1, scale=cv)
    # SciPy's own goes through the other tail, which rounds to 1.
    found = ShiftedGamma.upper_quantile(Q[:3], shape(cv, skew))
    assert found == pytest.approx(pearson.isf(Q[:3]), rel=1e-9)


@pytest.mark.parametrize("cv", [0.01, 0.2, 1.0])
def test_twice_the_cv_is_the_gammas_skewness(cv: float) -> None:
    found = ShiftedGamma.upper_quantile(Q, shape(cv, 2 * cv))
    assert found == pytest.approx(Gamma.upper_quantile(Q, shape(cv, 0)), rel=1e-12)


@pytest.mark.parametrize("cv", [0.01, 0.2, 1.0])
def test_two_is_the_exponentials_skewness(cv: float) -> None:
    found = ShiftedGamma.upper_quantile(Q, shape(cv, 2.0))
    assert found == pytest.approx(Exponential.upper_quantile(Q, shape(cv, 0)), rel=1e-11)


def test_hardly_any_skewness_is_normal() -> None:
    # The first term of the expansion by Cornish and Fisher: skew (z² - 1) / 6.
    z = stats.norm.isf(Q)
    found = ShiftedGamma.upper_quantile(Q, shape(0.0004, 0.001))
    normal = Normal.upper_quantile(Q, shape(0.0004, 0))
    assert found == pytest.approx(normal + 0.0004 * 0.001 * (z**2 - 1) / 6, abs=1e-8)
    assert found != pytest.approx(normal, abs=1e-8)


def test_the_smallest_factor_is_known() -> None:
    several = np.array([[0.1, 0.3, 0.5], [0.4, 0.6, 0.5]])
    assert lowest(several) == pytest.approx([0.5, 0, -1], abs=1e-15)
    assert ShiftedGamma.lower_quantile(np.full(3, -1e4), several) == pytest.approx(
        lowest(several), abs=1e-12
    )
