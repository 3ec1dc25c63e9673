"""What tells a cluster's mean step from what lasts in it."""

from typing import Any

import numpy as np
import pytest

from service.model.pipeline import blocks_of_draws
from service.model.pipeline.lasting_factors import LastingFactors
from service.model.pipeline.lasting_predictors import predictors_of
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans

GIVEN: dict[str, Any] = {"persistent": ("lognormal", 0.1), "slow": [(1, 1.3, RANDOM)], "tensor": 2}
RANKS = range(12)


def test_step_without_what_differs_from_step_to_step() -> None:
    cluster = cluster_of(**GIVEN, transient=("normal", 0.1), round_steps=3)
    factor = LastingFactors(cluster, 5).of_lanes(range(2), RANKS).reshape(2, 3, 2, 16).max(axis=2)
    makespans = [event_makespans(cluster, one[:, np.newaxis, np.newaxis]) for one in factor]
    found = predictors_of(cluster, 5, 2)
    np.testing.assert_allclose(found[:, 0], np.max(makespans, axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("fleeting", "variance"),
    [
        ({"transient": ("lognormal", 0.1)}, np.log(1.01)),
        ({"transient": ("lognormal", 0.1), "round_steps": 4}, np.log(1.01) / 4),
        ({"replica": ("lognormal", 0.2)}, np.log(1.04)),
        ({"jitter": ("lognormal", 0.2)}, np.log(1.04) / 4),
        ({"spikes": (0.1, 1.5)}, 0.09 * np.log(1.5) ** 2),
        ({"episodes": (0.1, 1.5), "round_steps": 4}, 0.09 * np.log(1.5) ** 2),
    ],
)
def test_power_means(fleeting: dict[str, Any], variance: float) -> None:
    cluster = cluster_of(**GIVEN, **fleeting)
    factor = LastingFactors(cluster, 5).of_lanes(range(2), RANKS)
    work = np.tile(np.repeat(cluster.busy / cluster.busy.max(), 2), 2)[:, np.newaxis]
    found = predictors_of(cluster, 5, 2)
    for column, score in zip(found.T[1:], (1.5, 4.0), strict=True):
        power = score / variance**0.5
        expected = np.log(((factor * work) ** power).mean(axis=0)) / power
        np.testing.assert_allclose(column, expected, rtol=0, atol=1e-9)


def test_steps_that_hardly_vary_leave_the_slowest_gpu() -> None:
    cluster = cluster_of(**GIVEN, common=("normal", 0.1))
    factor = LastingFactors(cluster, 5).of_lanes(range(1), RANKS)
    work = np.tile(np.repeat(cluster.busy / cluster.busy.max(), 2), 2)[:, np.newaxis]
    found = predictors_of(cluster, 5, 1)
    np.testing.assert_allclose(found[:, 2], np.log((factor * work).max(axis=0)), atol=2e-3)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(**GIVEN, transient=("normal", 0.1), replicas=5)
    whole = predictors_of(cluster, 5, 3)
    monkeypatch.setattr(blocks_of_draws, "_AT_ONCE", 100)
    np.testing.assert_allclose(predictors_of(cluster, 5, 3), whole, rtol=1e-12)
