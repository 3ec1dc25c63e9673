"""Clusters that differ for good, with steps that differ too, against clusters drawn by hand."""

from typing import Any, cast

import numpy as np
import pytest

from service.model.clusters.sampled_spread import Sampled
from service.model.laws.law import Floats
from service.model.pipeline.mixed_spread import mixed_spread
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.drawn_by_hand import lasting_by_hand, rounds_by_hand
from tests.model.pipeline.piped_fleets import cluster_of

CLUSTERS, STEPS = 500, 24


def _by_hand(given: dict[str, Any]) -> Floats:
    """(clusters,) mean steps, the noise of their few steps shrunk away."""
    rng = np.random.default_rng(4)
    lasting = lasting_by_hand(given, CLUSTERS, rng)
    floor = given.get("floor", -np.inf)
    rows = lasting.repeat(STEPS, axis=0)
    step = np.maximum(rounds_by_hand({**given, "floor": -np.inf}, rows, rng)[1], floor)
    step = step.reshape(CLUSTERS, STEPS)
    mean = step.mean(axis=1)
    noise = step.var(axis=1, ddof=1).mean() / STEPS
    scale = max(1 - noise / mean.var(ddof=1), 0.0) ** 0.5
    found: Floats = mean.mean() + scale * (mean - mean.mean())
    return found


def _found(given: dict[str, Any], draws: int = 2000, num_rounds: float = 1e9) -> Sampled:
    return cast("Sampled", mixed_spread(cluster_of(**given), 2, draws, num_rounds))


@pytest.mark.parametrize(
    "given",
    [
        {"persistent": ("lognormal", 0.05), "transient": ("lognormal", 0.05)},
        {"persistent": ("lognormal", 0.05), "transient": ("normal", 0.1), "floor": 1.6},
        {"persistent": ("lognormal", 0.1), "jitter": ("lognormal", 0.2), "num_removed": 1},
        {"node": ("lognormal", 0.05), "gpus_per_node": 1, "spikes": (0.05, 1.5)},
        {
            "slow": [(1, 1.2, RANDOM)],
            "persistent": ("normal", 0.05),
            "replica": ("normal", 0.05),
            "common": ("normal", 0.1),
        },
        {"persistent": ("lognormal", 0.05), "transient": ("normal", 0.1), "round_steps": 3},
    ],
)
def test_against_clusters_by_hand(given: dict[str, Any]) -> None:
    means = _by_hand(given)
    found = _found(given)
    sd = means.std()
    # Errors of both samples, and what is approximate.
    tolerance = 3.5 * np.hypot(found.quantiles_se, sd * np.array([1.7, 1.25, 1.7]) / CLUSTERS**0.5)
    expected = np.quantile(means, [0.1, 0.5, 0.9])
    assert (np.abs(found.quantiles - expected) < tolerance + 0.05 * sd).all()
    assert abs(found.mean - means.mean()) < 4 * np.hypot(found.mean_se, sd / CLUSTERS**0.5)
    assert found.reciprocal_mean == pytest.approx((1 / (0.3 + means)).mean(), rel=0.01)
    assert found.reciprocal_sd == pytest.approx((1 / (0.3 + means)).std(), rel=0.15)
    assert (found.quantiles_se < 0.35 * sd).all()


def test_slow_gpus_on_random_places() -> None:
    given: dict[str, Any] = {"slow": [(2, 1.3, RANDOM)], "transient": ("normal", 0.05)}
    means, found = _by_hand(given), _found(given)
    assert abs(found.mean - means.mean()) < 4 * np.hypot(found.mean_se, means.std() / 22)
    assert found.reciprocal_sd == pytest.approx((1 / (0.3 + means)).std(), rel=0.1)
    # Two in one stage, or in the same stage of both replicas, slow as one does.
    np.testing.assert_allclose(found.quantiles[[0, 2]], np.quantile(means, [0.1, 0.9]), rtol=0.01)


def test_what_lasts_little_beside_much_noise_keeps_to_the_mean() -> None:
    given: dict[str, Any] = {"persistent": ("normal", 1e-4), "transient": ("normal", 0.1)}
    found = _found(given)
    assert found.quantiles[2] - found.quantiles[0] < 0.02


def test_noise_of_the_window() -> None:
    given: dict[str, Any] = {"persistent": ("normal", 0.01), "transient": ("normal", 0.1)}
    long, short = _found(given), _found(given, num_rounds=20)
    added = short.reciprocal_sd**2 - long.reciprocal_sd**2
    assert added**0.5 * (0.3 + long.mean) ** 2 == pytest.approx(0.07 / 20**0.5, rel=0.2)


def test_too_few_steps() -> None:
    given: dict[str, Any] = {"persistent": ("gamma", 0.1), "transient": ("gamma", 1.0)}
    assert mixed_spread(cluster_of(**given), 2, 64, 1.0) is None


def test_autocorrelation_is_covered_where_its_noise_is_negligible() -> None:
    given: dict[str, Any] = {"persistent": ("normal", 0.1), "transient": ("normal", 0.1)}
    cluster = cluster_of(**given, autocorrelation=0.9)
    many = mixed_spread(cluster, 2, 400, 1e6)
    assert many is not None
    # Rounds of one step are not correlated inside.
    np.testing.assert_allclose(many.quantiles, _found(given, 400).quantiles, rtol=2e-4)
    assert mixed_spread(cluster, 2, 400, 100.0) is None
    assert mixed_spread(cluster_of(**given), 2, 400, 100.0) is not None
