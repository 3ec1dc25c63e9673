"""How much of the episodes' variance the average over a window keeps."""

import numpy as np
import pytest
from scipy import integrate

from service.model.clusters.episode_effects import kept_share
from service.model.pipeline.episode_windows import kept_variance


def _share(mean_hours: float, hours: float) -> float:
    return float(kept_share(np.array([mean_hours]), np.array([hours]))[0])


def test_one_rare_kind_is_remembered_for_its_length() -> None:
    value, probability = np.array([1.0, 2.0]), np.array([1 - 1e-9, 1e-9])
    found = kept_variance(value, probability, 6.0, 720.0)
    assert found == pytest.approx(1e-9 * _share(6, 720), rel=1e-4)


def test_a_short_window_keeps_all() -> None:
    rng = np.random.default_rng(0)
    value, probability = np.sort(rng.random(20))[::-1], rng.dirichlet(np.ones(20))
    mean = probability @ value
    variance = probability @ (value - mean) ** 2
    assert kept_variance(value, probability, 1e7, 1.0) == pytest.approx(variance, rel=1e-4)


@pytest.mark.parametrize("hours", [5.0, 100.0])
def test_sum_of_its_levels(hours: float) -> None:
    rng = np.random.default_rng(1)
    value, probability = np.sort(rng.random(6)), rng.dirichlet(np.ones(6))
    below = np.cumsum(probability)[:-1]
    gap, number = np.diff(value), -np.log(below)
    shared = np.minimum.outer(number, number)

    def covariance(age: float) -> float:
        return float(gap * below @ np.expm1(shared * np.exp(-age / 6)) @ (gap * below))

    integral = integrate.quad(lambda age: (1 - age / hours) * covariance(age), 0, hours)[0]
    found = kept_variance(value, probability, 6.0, hours)
    assert found == pytest.approx(2 / hours * integral, rel=1e-4)


def test_nothing_varies() -> None:
    assert kept_variance(np.ones(1), np.ones(1), 6.0, 720.0) == 0
    assert kept_variance(np.array([1.0, 2.0]), np.array([0.0, 1.0]), 6.0, 720.0) < 1e-15
