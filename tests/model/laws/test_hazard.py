"""Hazards from probabilities and scores, in both tails."""

import numpy as np
import pytest
from scipy import stats

from service.model.laws.hazard import (
    add_hazard_rate,
    hazard_of_log_p,
    hazard_of_score,
    hazard_rate,
    hazard_rate_and_slope,
)


def test_hazards_of_probabilities_are_exact_in_both_tails() -> None:
    log_p = np.array([-700.0, -40, -1.0000001, -0.9999999, -1e-3, -1e-18])
    found = hazard_of_log_p(log_p)
    assert found[:2] == pytest.approx(np.exp(log_p[:2]), rel=1e-13)
    assert found[2:4] == pytest.approx(-np.log1p(-np.exp(log_p[2:4])), rel=1e-14)
    assert found[4:] == pytest.approx(-np.log(-np.expm1(log_p[4:])), rel=1e-14)


def test_hazards_of_scores_are_exact_in_both_tails() -> None:
    z = np.array([-37.0, -8, 0, 8, 37])
    assert hazard_of_score(z) == pytest.approx(-stats.norm.logsf(z), rel=1e-13)
    assert hazard_of_score(z)[:2] == pytest.approx(stats.norm.cdf(z[:2]), rel=1e-12)


def test_rates_are_finite_everywhere() -> None:
    hazard = np.array([-1e9, 0, 1e-20, 0.5, 30, 1e9])
    rate = hazard_rate(hazard)
    assert rate[:3] == pytest.approx(-np.log(2.0**-53), rel=1e-12)
    assert rate[3:5] == pytest.approx([-np.log(-np.expm1(-0.5)), np.exp(-30)], rel=1e-12)
    assert 0 < rate[5] < 1e-300
    total = np.ones((1, 6))
    add_hazard_rate(hazard[np.newaxis].copy(), np.full(6, 2.0), total)
    assert total[0] == pytest.approx(1 + 2 * rate, rel=1e-15)


def test_slopes_are_those_of_the_rate() -> None:
    hazard = np.array([0.1, 1.0, 10.0])
    rate, slope = hazard_rate_and_slope(hazard, np.full(3, 2.0))
    step = 1e-6
    numeric = (hazard_rate(hazard + step) - hazard_rate(hazard - step)) / (2 * step)
    assert rate == pytest.approx(hazard_rate(hazard), rel=1e-15)
    assert slope == pytest.approx(2 * numeric, rel=1e-6)
