"""From drawn rounds to expectations."""

import numpy as np
import pytest

from service.model.pipeline.rounds import Rounds
from service.model.pipeline.step_estimates import expected_over_time, expected_step, steadied


def test_the_plain_mean() -> None:
    step = np.array([1.0, 2.0, 3.0, 6.0])
    found = expected_step(Rounds(step, np.ones(4)), -np.inf)
    assert (found.mean, found.rest) == (3, 3)
    assert found.mean_se == pytest.approx(step.std(ddof=1) / 2, rel=1e-12)
    floored = expected_step(Rounds(step, np.ones(4)), 2.5)
    assert (floored.mean, floored.rest) == (3.5, 3)


def test_what_all_share_is_known_on_average() -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(1, 0.2, 1000)
    np.testing.assert_allclose(steadied(0.3 + 2 * common, common), 2.3, rtol=1e-12)
    own = rng.normal(0, 0.01, 1000)
    found = expected_step(Rounds(2 * common + own, common), -np.inf)
    assert found.mean_se < 0.0004
    assert abs(found.mean - 2) < 4 * found.mean_se
    # Without control it would be twenty times as much.
    assert (2 * common).std() / 1000**0.5 > 0.01


def test_states_weigh_by_time() -> None:
    step = np.array([1.0, 1.0, 3.0, 2.0])
    found = expected_over_time(Rounds(step, np.ones(4)), -np.inf, 0.5, 1)
    rate = 1 / (0.5 + step)
    assert found.mean == pytest.approx(1 / rate.mean() - 0.5, rel=1e-12)
    assert found.rest == pytest.approx(found.mean, rel=1e-12)
    error = rate.std(ddof=1) / 2 / rate.mean() ** 2
    assert found.mean_se == pytest.approx(error, rel=1e-12)
    floored = expected_over_time(Rounds(step, np.ones(4)), 1.5, 0.5, 1)
    rate = 1 / (0.5 + np.maximum(step, 1.5))
    assert floored.mean == pytest.approx(1 / rate.mean() - 0.5, rel=1e-12)
    assert floored.rest == pytest.approx((step @ rate) / rate.sum(), rel=1e-12)


@pytest.mark.parametrize("sd", [0.05, 0.2])
def test_few_draws_of_a_state_leave_hardly_a_bias(sd: float) -> None:
    rng = np.random.default_rng(1)
    number = 200_000
    state = rng.choice([1.0, 1.5], number)
    step = np.repeat(state, 4) + sd * rng.standard_normal(4 * number)
    found = expected_over_time(Rounds(step, np.ones(len(step))), -np.inf, 0.3, 4)
    expected = 1 / np.mean([1 / 1.3, 1 / 1.8]) - 0.3
    assert abs(found.mean - expected) < 4 * found.mean_se + 3 * sd**4 / 16
    # Without the correction of second order: too small by about sd^2 / 4 / 1.5.
    plain = 1 / (1 / (0.3 + step.reshape(-1, 4).mean(axis=1))).mean() - 0.3
    assert expected - plain > 0.8 * sd**2 / 4 / 1.6
