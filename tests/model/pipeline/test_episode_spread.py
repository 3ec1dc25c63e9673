"""Windows of clusters with episodes, against windows drawn episode by episode."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.model.clusters.spread_types import MONTE_CARLO, QUADRATURE, Spread
from service.model.laws.law import Floats
from service.model.pipeline.episode_spread import episode_spread, has_known_episodes
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.shape import RANDOM
from service.model.pipeline.simulate import simulate_pipelines
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans, ints

WINDOW_HOURS = 168.0
NUM_WINDOWS = 600
State = Floats


def _windows(cluster: OneCluster, step_of: Callable[[State], float]) -> Floats:
    """(windows,) effective steps; episodes of an hour come to a GPU as a Poisson process."""
    rng = np.random.default_rng(6)
    episodes = cluster.fleet.episodes
    assert episodes is not None
    rate = float(-np.log1p(-episodes.occupancy[0])) * cluster.num_working
    known: dict[bytes, float] = {}
    found = []
    for _ in range(NUM_WINDOWS):
        running, new = rng.poisson(rate), rng.poisson(rate * WINDOW_HOURS)
        start = np.append(np.zeros(running), rng.uniform(0, WINDOW_HOURS, new))
        end = np.minimum(start + rng.exponential(size=len(start)), WINDOW_HOURS)
        gpu = rng.integers(cluster.num_working, size=len(start))
        order = np.argsort(np.append(start, end), kind="stable")
        change = np.append(np.ones(len(start)), -np.ones(len(start)))[order]
        count = np.zeros((len(order) + 1, cluster.num_working))
        count[np.arange(1, len(order) + 1), np.append(gpu, gpu)[order]] = change
        ill = count.cumsum(axis=0) > 0
        lasts = np.diff(np.concatenate([[0.0], np.append(start, end)[order], [WINDOW_HOURS]]))
        done = 0.0
        for state, hours in zip(ill, lasts.tolist(), strict=True):
            key = state.tobytes()
            if key not in known:
                known[key] = step_of(np.where(state, episodes.severity[0], 1.0))
            done += hours / (0.3 + known[key])
        found.append(WINDOW_HOURS / done - 0.3)
    return np.array(found)


def _step_of(cluster: OneCluster, noise: Floats) -> Callable[[State], float]:
    """Mean over noise (GPUs, draws) of the step in a state; one GPU a stage."""

    def step(state: State) -> float:
        factor = (state[:, np.newaxis] * noise).reshape(-1, cluster.stages, 1, 1, noise.shape[1])
        makespans = [event_makespans(cluster, of_replica) for of_replica in factor]
        return float(np.maximum(np.max(makespans, axis=0), cluster.floor).mean())

    return step


def _found(cluster: OneCluster, draws: int = 4000, num_rounds: float = 1e6) -> Spread:
    return episode_spread(
        cluster,
        ints(0),
        ints(draws),
        num_rounds=np.array([num_rounds]),
        window_hours=WINDOW_HOURS,
    )


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
    _agrees(found, _windows(cluster, _step_of(cluster, noise)))
    assert found.method[0] == QUADRATURE
    assert (found.quantiles_se == 0).all()
    assert found.mean[0] == simulate_pipelines(cluster.fleet, ints(0), ints(8)).mean[0]


def test_episodes_beside_noise_of_steps() -> None:
    cluster = cluster_of(episodes=(0.02, 1.3), transient=("normal", 0.1))
    noise = 1 + 0.1 * np.random.default_rng(0).standard_normal((6, 8000))
    found = _found(cluster)
    _agrees(found, _windows(cluster, _step_of(cluster, noise)))
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
