"""Clusters that differ for good, with episodes, against clusters and windows drawn by hand."""

from typing import Any, cast

import numpy as np
import pytest

from service.model.clusters.sampled_spread import Sampled
from service.model.laws.law import Floats
from service.model.pipeline.mixed_episodes import mixed_episodes
from service.model.pipeline.mixed_spread import mixed_spread
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.drawn_by_hand import lasting_by_hand, of_law
from tests.model.pipeline.piped_fleets import cluster_of
from tests.model.pipeline.windows_by_hand import windows_by_hand

HOURS = 168.0
NUM_WINDOWS = 300


def _by_hand(given: dict[str, Any]) -> Floats:
    lasting = {name: law for name, law in given.items() if name not in ("transient", "episodes")}

    def factors(rng: np.random.Generator) -> Floats:
        of_cluster = lasting_by_hand(lasting, 1, rng).T
        if "transient" not in given:
            return of_cluster
        return of_cluster * of_law(given["transient"], (len(of_cluster), 40), rng)

    return windows_by_hand(cluster_of(**given), NUM_WINDOWS, HOURS, factors)


def _found(given: dict[str, Any], num_rounds: float = 1e6) -> Sampled:
    found = mixed_episodes(cluster_of(**given), 2, 2000, num_rounds, HOURS)
    return cast("Sampled", found)


@pytest.mark.parametrize(
    "given",
    [
        {"persistent": ("lognormal", 0.05), "episodes": (0.02, 1.5)},
        {"persistent": ("lognormal", 0.01), "episodes": (0.005, 2.0)},
        {"node": ("normal", 0.05), "gpus_per_node": 2, "episodes": (0.1, 1.3), "floor": 1.8},
        {"slow": [(1, 1.3, RANDOM)], "persistent": ("normal", 0.03), "episodes": (0.02, 1.5)},
        {
            "persistent": ("normal", 0.05),
            "transient": ("normal", 0.1),
            "episodes": (0.02, 1.5),
            "replicas": 1,
        },
    ],
)
def test_against_windows_by_hand(given: dict[str, Any]) -> None:
    windows, found = _by_hand(given), _found(given)
    sd = windows.std()
    expected = np.quantile(windows, [0.1, 0.5, 0.9])
    by_chance = sd * np.array([1.7, 1.25, 2.0]) / NUM_WINDOWS**0.5
    tolerance = 3.5 * np.hypot(found.quantiles_se, by_chance) + 0.05 * sd
    assert (np.abs(found.quantiles - expected) < tolerance).all()
    assert abs(found.mean - windows.mean()) < 4 * np.hypot(found.mean_se, by_chance[1])
    rate = 1 / (0.3 + windows)
    assert found.reciprocal_mean == pytest.approx(rate.mean(), rel=0.01)
    assert found.reciprocal_sd == pytest.approx(rate.std(), rel=0.2)


def test_episodes_that_slow_nobody() -> None:
    given: dict[str, Any] = {"persistent": ("normal", 0.05), "transient": ("normal", 0.05)}
    found = _found({**given, "episodes": (0.1, 1.0)})
    without = cast("Sampled", mixed_spread(cluster_of(**given), 2, 2000, 1e6))
    tolerance = 0.3 * without.quantiles_se
    assert (np.abs(found.quantiles - without.quantiles) < tolerance).all()


def test_common_factor_is_no_difference_of_clusters() -> None:
    given: dict[str, Any] = {"persistent": ("normal", 0.05), "episodes": (0.02, 1.5)}
    found = _found({**given, "common": ("normal", 0.1)})
    without = _found(given)
    assert found.mean == pytest.approx(without.mean, abs=5 * found.mean_se)
    assert found.reciprocal_sd == pytest.approx(without.reciprocal_sd, rel=0.1)


def test_too_few_steps() -> None:
    given: dict[str, Any] = {"persistent": ("normal", 0.1), "episodes": (0.02, 1.5)}
    noisy = cluster_of(**given, transient=("gamma", 1.0))
    assert mixed_episodes(noisy, 2, 64, 1.0, HOURS) is None
    correlated = cluster_of(**given, transient=("normal", 0.1), autocorrelation=0.9)
    assert mixed_episodes(correlated, 2, 64, 100.0, HOURS) is None
    assert mixed_episodes(correlated, 2, 64, 1e6, HOURS) is not None
