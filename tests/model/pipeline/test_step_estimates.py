"""From drawn rounds to expectations."""

import numpy as np
import pytest

from service.model.pipeline.rounds import Rounds
from service.model.pipeline.step_estimates import (
    LEAST_UNTRIED,
    Known,
    OverTime,
    expected_over_time,
    expected_step,
)


def test_the_plain_mean() -> None:
    step = np.array([1.0, 2.0, 3.0, 6.0])
    found = expected_step(Rounds(step, np.ones(4)), -np.inf)
    assert (found.mean, found.rest) == pytest.approx((3, 3), rel=1e-12)
    # Student's distribution of three degrees of freedom has a variance of 3.
    assert found.mean_se == pytest.approx(step.std(ddof=1) / 2 * 3**0.5, rel=1e-12)
    floored = expected_step(Rounds(step, np.ones(4)), 2.5)
    assert (floored.mean, floored.rest) == pytest.approx((3.5, 3), rel=1e-12)


def test_what_all_share_is_known_on_average() -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(1, 0.2, 1000)
    line = expected_step(Rounds(0.3 + 2 * common, common), -np.inf)
    assert line.mean == pytest.approx(2.3, rel=1e-12)
    assert line.mean_se == pytest.approx(0, abs=1e-12)
    own = rng.normal(0, 0.01, 1000)
    found = expected_step(Rounds(2 * common + own, common), -np.inf)
    assert found.mean_se < 0.0004
    assert abs(found.mean - 2) < 4 * found.mean_se
    # Without control it would be twenty times as much.
    assert (2 * common).std() / 1000**0.5 > 0.01


def test_states_weigh_by_time() -> None:
    step = np.array([1.0, 1.0, 3.0, 2.0])
    found = expected_over_time(Rounds(step, np.ones(4)), -np.inf, OverTime(0.5, 1))
    rate = 1 / (0.5 + step)
    assert found.mean == pytest.approx(1 / rate.mean() - 0.5, rel=1e-12)
    assert found.rest == pytest.approx(found.mean, rel=1e-12)
    error = 3**0.5 * rate.std(ddof=1) / 2 / rate.mean() ** 2
    assert found.mean_se == pytest.approx(error, rel=1e-12)
    floored = expected_over_time(Rounds(step, np.ones(4)), 1.5, OverTime(0.5, 1))
    rate = 1 / (0.5 + np.maximum(step, 1.5))
    assert floored.mean == pytest.approx(1 / rate.mean() - 0.5, rel=1e-12)
    assert floored.rest == pytest.approx((step @ rate) / rate.sum(), rel=1e-12)


@pytest.mark.parametrize("sd", [0.05, 0.2])
def test_few_draws_of_a_state_leave_hardly_a_bias(sd: float) -> None:
    rng = np.random.default_rng(1)
    number = 200_000
    state = rng.choice([1.0, 1.5], number)
    step = np.repeat(state, 4) + sd * rng.standard_normal(4 * number)
    found = expected_over_time(Rounds(step, np.ones(len(step))), -np.inf, OverTime(0.3, 4))
    expected = 1 / np.mean([1 / 1.3, 1 / 1.8]) - 0.3
    assert abs(found.mean - expected) < 4 * found.mean_se + 3 * sd**4 / 16
    # Without the correction of second order: too small by about sd^2 / 4 / 1.5.
    plain = 1 / (1 / (0.3 + step.reshape(-1, 4).mean(axis=1))).mean() - 0.3
    assert expected - plain > 0.8 * sd**2 / 4 / 1.6


def _known(rng: np.random.Generator, number: int) -> Known:
    values, probability = np.array([1.0, 1.5, 3.0]), np.array([0.7, 0.25, 0.05])
    return Known(rng.choice(values, number, p=probability), values, probability)


def test_what_is_known_of_steps_steadies_them() -> None:
    rng = np.random.default_rng(2)
    known = _known(rng, 1000)
    noise = rng.normal(0, 0.01, 1000)
    rounds = Rounds(known.drawn * 1.1 + noise, np.ones(1000))
    for floor in (-np.inf, 1.2):
        found = expected_step(rounds, floor, [known])
        expected = np.maximum(known.step * 1.1, floor) @ known.probability
        assert abs(found.mean - expected) < 4 * found.mean_se + 0.01 * (floor > 1)
        assert found.mean_se < 0.002
        assert found.rest == pytest.approx(1.1 * (known.step @ known.probability), abs=0.002)
    # Without it thirty times as much.
    assert expected_step(rounds, -np.inf).mean_se > 0.01


def test_what_is_known_of_states_steadies_them() -> None:
    rng = np.random.default_rng(3)
    known = _known(rng, 500)
    step = np.repeat(known.drawn + 0.2, 4) + rng.normal(0, 0.01, 2000)
    found = expected_over_time(Rounds(step, np.ones(2000)), -np.inf, OverTime(0.3, 4), [known])
    expected = 1 / (known.probability @ (1 / (0.5 + known.step))) - 0.3
    assert abs(found.mean - expected) < 4 * found.mean_se
    assert found.mean_se < 0.002


def test_what_is_too_rare_to_be_drawn_is_added_and_few_values_control_nothing() -> None:
    step = np.random.default_rng(4).normal(2, 0.1, 100)
    never = Known(np.ones(100), np.array([1.0, 2.0]), np.array([0.99, 0.01]))
    rounds = Rounds(step, np.ones(100))
    found, plain = expected_step(rounds, -np.inf, [never]), expected_step(rounds, -np.inf)
    assert found.mean == pytest.approx(plain.mean + 0.01, rel=1e-12)
    assert found.rest == pytest.approx(plain.rest + 0.01, rel=1e-12)
    assert found.mean_se == pytest.approx(np.hypot(plain.mean_se, LEAST_UNTRIED * 0.01), rel=1e-12)
    over_time = expected_over_time(rounds, -np.inf, OverTime(0.5, 1), [never])
    rate = (1 / (0.5 + step)).mean() + 0.01 * (1 / 2.5 - 1 / 1.5)
    assert over_time.mean == pytest.approx(1 / rate - 0.5, rel=1e-12)
    few = Rounds(step[:8], np.linspace(0.9, 1.1, 8))
    assert expected_step(few, -np.inf).mean == pytest.approx(step[:8].mean(), rel=1e-12)
