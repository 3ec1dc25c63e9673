"""A law from its curve: the methods agree with each other, and with the family that it is."""

import numpy as np
import pytest

from service.model.distributions import Gamma, Law, Pareto
from service.model.laws.doubling import mean_of_steps
from service.model.laws.mean_law import MeanLaw

CV, STEPS = 0.4, 4
SHAPE = np.array([[CV], [0.0]])
NARROWER = SHAPE / 2


def law() -> Law:
    return MeanLaw(mean_of_steps(Gamma, SHAPE, STEPS).score_of, None)


def test_quantiles_and_rates_are_those_of_the_family() -> None:
    q = np.array([[0.999], [0.5], [1e-3], [1e-9], [1e-16]])
    x = Gamma.upper_quantile(q, NARROWER)
    assert law().upper_quantile(q, SHAPE) == pytest.approx(x, rel=1e-10)
    assert law().rate(x, SHAPE) == pytest.approx(Gamma.rate(x, NARROWER), rel=1e-9)
    log_p = np.array([[-20.0], [-1.5], [-0.5], [-1e-9]])
    expected = Gamma.lower_quantile(log_p, NARROWER)
    assert law().lower_quantile(log_p, SHAPE) == pytest.approx(expected, rel=1e-9)
    z = np.array([[-6.0], [0.0], [3.0], [8.0]])
    assert law().at_score(z, SHAPE) == pytest.approx(Gamma.at_score(z, NARROWER), rel=1e-9)


def test_rates_of_groups_add_up() -> None:
    v = np.log(np.array([[0.9, 1.2], [1.5, 2.0]]))
    mean, num_gpus = np.array([1.0, 1.1]), np.array([3.0, 0.0])
    to = np.ones((2, 2))
    law().add_rate(v, mean, SHAPE, num_gpus, to)
    expected = 1 + num_gpus * Gamma.rate(np.exp(v) / mean, NARROWER)
    assert to == pytest.approx(expected, rel=1e-10)


def test_slopes_are_differences() -> None:
    v, mean, step = np.log(np.array([0.8, 1.0, 1.6])), np.full(3, 1.05), 1e-5
    rate, slope = law().rate_and_slope(v, mean, SHAPE)
    upper, _ = law().rate_and_slope(v + step, mean, SHAPE)
    lower, _ = law().rate_and_slope(v - step, mean, SHAPE)
    assert rate == pytest.approx(Gamma.rate(np.exp(v) / mean, NARROWER), rel=1e-10)
    assert slope == pytest.approx((upper - lower) / (2 * step), rel=1e-7)


def test_beyond_the_curve_rates_stay_finite() -> None:
    rate = law().rate(np.array([0.0, 1e-300, 1e9]), SHAPE)
    assert np.isfinite(rate).all()
    assert rate[2] < 1e-30


def test_powers_of_tails() -> None:
    assert law().tail_power(SHAPE) is None
    power = Pareto.tail_power(SHAPE)[0]
    heavy = MeanLaw(mean_of_steps(Pareto, SHAPE, STEPS).score_of, float(power))
    found = heavy.tail_power(np.zeros((2, 3)))
    assert found is not None
    assert found.tolist() == [power] * 3
    assert heavy.quadrature().above > law().quadrature().above
