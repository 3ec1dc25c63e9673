"""Windows of clusters with episodes, against windows drawn episode by episode."""

from typing import Any

import numpy as np
import pytest

from service.model.clusters.spread_types import MONTE_CARLO, QUADRATURE, Spread
from service.model.laws.law import Floats
from service.model.pipeline.episode_spread import episode_spread, has_known_episodes
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.shape import RANDOM
from service.model.pipeline.simulate import simulate_pipelines
from tests.model.pipeline.piped_fleets import cluster_of, ints
from tests.model.pipeline.windows_by_hand import windows_by_hand

WINDOW_HOURS = 168.0


def _found(cluster: OneCluster, draws: int = 4000, num_rounds: float = 1e6) -> Spread:
    return episode_spread(
        cluster,
        ints(0),
        ints(draws),
        num_rounds=np.array([num_rounds]),
        window_hours=WINDOW_HOURS,
    )


def _windows(cluster: OneCluster, noise: Floats) -> Floats:
    return windows_by_hand(cluster, 400, WINDOW_HOURS, lambda _: noise)


def _agrees(found: Spread, windows: Floats) -> None:
    sd = windows.std()
    expected = np.quantile(windows, [0.1, 0.5, 0.9])
    assert (np.abs(found.quantiles[0] - expected) < 0.3 * sd + 4 * found.quantiles_se[0]).all()
    assert found.mean[0] == pytest.approx(windows.mean(), abs=0.15 * sd + 4 * found.mean_se[0])
    rate = 1 / (0.3 + windows)
    assert found.reciprocal_sd[0] == pytest.approx(rate.std(), rel=0.15)
    assert found.reciprocal_mean[0] == pytest.approx(rate.mean(), rel=2e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"episodes": (0.002, 1.5)},
        {"episodes": (0.2, 1.3)},
        {"episodes": (0.02, 2.0), "slow": [(1, 1.3, 2)], "replicas": 1},
        {"episodes": (0.05, 1.5), "floor": 1.8},
        {"episodes": (0.02, 1.5), "slow": [(1, 1.2, 2)]},
    ],
)
def test_episodes_alone(given: dict[str, Any]) -> None:
    cluster = cluster_of(**given)
    noise = np.ones((cluster.num_working, 1))
    noise[2] = given.get("slow", [(0, 1.0, 0)])[0][1]
    found = _found(cluster)
    _agrees(found, _windows(cluster, noise))
    assert found.method[0] == QUADRATURE
    assert (found.quantiles_se == 0).all()
    assert found.mean[0] == simulate_pipelines(cluster.fleet, ints(0), ints(8)).mean[0]


def test_episodes_beside_noise_of_steps() -> None:
    cluster = cluster_of(episodes=(0.02, 1.3), transient=("normal", 0.1))
    noise = 1 + 0.1 * np.random.default_rng(0).standard_normal((6, 8000))
    found = _found(cluster)
    _agrees(found, _windows(cluster, noise))
    assert found.method[0] == MONTE_CARLO
    assert found.reciprocal_mean_se[0] > 0
    # The noise of few steps is added.
    few = _found(cluster, num_rounds=10)
    steps = simulate_pipelines(cluster_of(transient=("normal", 0.1)).fleet, ints(0), ints(4000))
    added = few.reciprocal_sd**2 - found.reciprocal_sd**2
    expected = steps.variance / 10 / (0.3 + found.mean) ** 4
    np.testing.assert_allclose(added, expected, rtol=1e-3)


def test_too_few_steps() -> None:
    found = _found(cluster_of(episodes=(0.02, 1.3), transient=("gamma", 1.0)), 64, num_rounds=1)
    assert np.isnan(found.quantiles).all()
    assert np.isnan(found.reciprocal_sd[0])


def test_episodes_that_slow_nobody() -> None:
    found = _found(cluster_of(episodes=(0.1, 1.0), transient=("normal", 0.1)), 64)
    plain = simulate_pipelines(cluster_of(transient=("normal", 0.1)).fleet, ints(0), ints(64))
    sd = (plain.variance[0] / 1e6) ** 0.5
    width = found.quantiles[0, 2] - found.quantiles[0, 0]
    assert width == pytest.approx(2 * 1.28155 * sd, rel=1e-3)


def test_which_are_known() -> None:
    assert has_known_episodes(cluster_of(episodes=(0.1, 1.5), transient=("normal", 0.1)))
    many: dict[str, Any] = {"stages": 20, "replicas": 8, "microbatches": 20}
    assert not has_known_episodes(cluster_of(episodes=(0.1, 1.5), **many))
    assert has_known_episodes(cluster_of([(1, 1.5, RANDOM)], episodes=(0.1, 1.5)))
