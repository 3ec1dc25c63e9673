"""The spread of the window's mean step over pipelined clusters."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from service.model.clusters.spread_types import CLOSED_FORM, MONTE_CARLO, QUADRATURE, Spread
from service.model.pipeline.cluster_spread import spread_of_pipelines
from service.model.pipeline.shape import RANDOM
from service.model.pipeline.simulate import simulate_pipelines
from tests.model.pipeline.drawn_by_hand import steps_by_hand
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans, ints, piped_fleet

LARGE: dict[str, Any] = {"stages": 20, "microbatches": 20, "replicas": 8}


def _spread(given: dict[str, Any], draws: int = 4000, num_steps: float = 100.0) -> Spread:
    return spread_of_pipelines(
        piped_fleet(**given),
        ints(0),
        ints(draws),
        num_steps=np.array([num_steps]),
        window_hours=np.array([720.0]),
    )


@pytest.mark.parametrize("round_steps", [1, 4])
def test_noise_of_independent_steps(round_steps: int) -> None:
    given: dict[str, Any] = {"transient": ("normal", 0.1), "round_steps": round_steps}
    steps = steps_by_hand(given, 4000)
    found = _spread(given)
    sd = steps.std() / (100 / round_steps) ** 0.5
    piped = simulate_pipelines(piped_fleet(**given), ints(0), ints(4000))
    assert found.mean[0] == piped.mean[0]
    assert found.quantiles[0, 1] == piped.mean[0]
    # What the quantiles lie about is as uncertain as the mean.
    assert found.quantiles_se.tolist() == [[piped.mean_se[0]] * 3]
    assert found.mean_se.tolist() == piped.mean_se.tolist()
    assert found.reciprocal_mean_se[0] == piped.mean_se[0] / (0.3 + piped.mean[0]) ** 2
    assert found.method[0] == MONTE_CARLO
    width = found.quantiles[0, 2] - found.quantiles[0, 0]
    assert width == pytest.approx(2 * 1.2815515655 * sd, rel=0.06)
    assert found.reciprocal_sd[0] == pytest.approx(sd / (0.3 + steps.mean()) ** 2, rel=0.06)


def test_clusters_that_differ_for_good() -> None:
    given: dict[str, Any] = {
        "persistent": ("normal", 0.1),
        "slow": [(1, 1.2, RANDOM)],
        "num_removed": 1,
        "floor": 1.6,
    }
    steps = np.maximum(steps_by_hand({**given, "floor": -np.inf}, 8000), 1.6)
    found = _spread(given)
    expected = np.quantile(steps, [0.1, 0.5, 0.9])
    assert (np.abs(found.quantiles[0] - expected) <= 6 * found.quantiles_se[0]).all()
    assert abs(found.mean[0] - steps.mean()) < 5 * found.mean_se[0]
    reciprocal = 1 / (0.3 + steps)
    assert abs(found.reciprocal_mean[0] - reciprocal.mean()) < 5 * found.reciprocal_mean_se[0]
    assert found.reciprocal_sd[0] == pytest.approx(reciprocal.std(), rel=0.06)
    assert found.method[0] == MONTE_CARLO


def test_placements_exactly() -> None:
    given: dict[str, Any] = {"slow": [(1, 1.5, RANDOM)], "replicas": 2}
    factor = np.ones((3, 1, 1, 3))
    factor[np.arange(3), 0, 0, np.arange(3)] = 1.5
    steps = np.sort(event_makespans(cluster_of(), factor))
    found = _spread(given)
    np.testing.assert_allclose(found.quantiles[0], steps, rtol=1e-12)
    reciprocal = 1 / (0.3 + steps)
    assert found.mean[0] == pytest.approx(steps.mean(), rel=1e-12)
    assert found.reciprocal_mean[0] == pytest.approx(reciprocal.mean(), rel=1e-12)
    assert found.reciprocal_sd[0] == pytest.approx(reciprocal.std(), rel=1e-9)
    assert (found.quantiles_se[0] == 0).all()
    assert found.reciprocal_mean_se[0] == 0
    assert found.method[0] == CLOSED_FORM


def test_placements_that_are_too_many_are_drawn() -> None:
    given: dict[str, Any] = {"slow": [(1, 1.5, RANDOM)], "replicas": 40, "num_backup": 17}
    found = _spread(given, draws=64)
    assert found.method[0] == MONTE_CARLO
    nominal = float(cluster_of().makespans(np.ones((3, 1)))[0])
    np.testing.assert_allclose(found.quantiles[0], nominal, rtol=1e-12)


def test_nothing_varies() -> None:
    found = _spread({"slow": [(1, 1.5, 1)]})
    np.testing.assert_allclose(found.quantiles[0], found.mean[0], rtol=1e-15)
    assert found.reciprocal_sd[0] == 0
    assert found.method[0] == CLOSED_FORM


def test_noise_of_spikes_is_known_without_sampling() -> None:
    found = _spread({"spikes": (0.01, 2.0)}, num_steps=1e6)
    assert found.method[0] == QUADRATURE
    assert found.quantiles_se.tolist() == [[0, 0, 0]]
    assert found.reciprocal_sd[0] > 0


@pytest.mark.parametrize(
    "given",
    [
        # Episodes with too many states.
        {"episodes": (0.1, 1.5), **LARGE},
        {"episodes": (0.1, 1.5), "persistent": ("normal", 0.1), **LARGE},
        # Autocorrelation whose noise matters.
        {"transient": ("normal", 0.1), "autocorrelation": 0.5},
        {"transient": ("normal", 0.1), "autocorrelation": 0.5, "persistent": ("normal", 0.01)},
    ],
)
def test_what_is_not_covered(given: dict[str, Any]) -> None:
    found = _spread(given, draws=16, num_steps=20.0)
    assert np.isnan(found.quantiles).all()
    assert np.isnan(found.mean[0])


@pytest.mark.parametrize(
    "given",
    [
        {"persistent": ("normal", 0.1), "transient": ("normal", 0.1)},
        {"persistent": ("normal", 0.1), "transient": ("normal", 0.1), "autocorrelation": 0.5},
        {"slow": [(1, 1.5, RANDOM)], "jitter": ("normal", 0.1)},
        {"node": ("normal", 0.1), "spikes": (0.1, 1.5)},
        {"episodes": (0.1, 1.5)},
        {"episodes": (0.1, 1.5), "transient": ("normal", 0.1)},
        {"episodes": (0.1, 1.5), "persistent": ("normal", 0.1)},
    ],
)
def test_a_point_is_the_same_alone(given: dict[str, Any]) -> None:
    alone, window = piped_fleet(**given), {"num_steps": 1e6, "window_hours": 720.0}
    # The second of three points.
    rows = np.zeros(3, dtype=np.intp)
    together = spread_of_pipelines(
        alone.part(rows),
        np.array([1, 0, 2]),
        np.array([64, 128, 16]),
        **{name: np.full(3, value) for name, value in window.items()},
    )
    found = spread_of_pipelines(
        alone, ints(0), ints(128), **{name: np.full(1, value) for name, value in window.items()}
    )
    assert np.isfinite(found.quantiles).all()
    for field in fields(Spread):
        whole, part = getattr(together, field.name), getattr(found, field.name)
        np.testing.assert_array_equal(whole[1], part[0])


def test_autocorrelation_of_nothing_is_covered() -> None:
    found = _spread({"spikes": (0.1, 1.5), "autocorrelation": 0.5}, draws=64)
    assert np.isfinite(found.mean[0])
