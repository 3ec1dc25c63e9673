"""Rounds do not hang on how many are worked on at a time."""

from typing import Any

import numpy as np
import pytest

from service.model.pipeline import blocks_of_draws, jittered
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.replica_makespans import replica_makespans
from service.model.pipeline.rounds import repeated_rounds, rounds_of
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans, ints, piped_fleet

CASES: list[dict[str, Any]] = [
    {"transient": ("normal", 0.1), "round_steps": 3, "autocorrelation": 0.5, "num_backup": 2},
    {"persistent": ("normal", 0.1), "num_removed": 2, "spikes": (0.1, 1.5)},
    {"slow": [(2, 1.5, RANDOM)], "episodes": (0.1, 1.5), "common": ("gamma", 0.1)},
    {"jitter": ("gamma", 0.1), "transient": ("normal", 0.1), "round_steps": 2},
    {"jitter": ("gamma", 0.1), "replica": ("normal", 0.1), "num_backup": 1},
]


@pytest.mark.parametrize("given", CASES)
def test_blocks_change_nothing(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    size: dict[str, Any] = {"replicas": 5, "tensor": 2}
    whole = rounds_of(cluster_of(**size, **given), 0, 6)
    of_replicas = replica_makespans(piped_fleet(**size, **given), ints(0), ints(48))
    monkeypatch.setattr(blocks_of_draws, "_AT_ONCE", 200)
    monkeypatch.setattr(jittered, "_AT_ONCE", 1000)
    parts = rounds_of(cluster_of(**size, **given), 0, 6)
    np.testing.assert_allclose(parts.step, whole.step, rtol=1e-12)
    np.testing.assert_allclose(parts.common, whole.common, rtol=1e-12)
    again = replica_makespans(piped_fleet(**size, **given), ints(0), ints(48))
    for value, before in zip(again, of_replicas, strict=True):
        np.testing.assert_allclose(value, before, rtol=1e-9)
    few = rounds_of(cluster_of(**size, **given), 0, 2)
    np.testing.assert_allclose(few.step, whole.step[: 2 * LANE], rtol=1e-12)


def test_the_longest_of_all_makespans() -> None:
    # One replica of one more source: the common factor is the whole step.
    cluster = cluster_of(common=("lognormal", 0.1), replicas=2)
    found = rounds_of(cluster, 0, 3)
    factor = np.repeat(found.common[np.newaxis], 3, axis=0)[:, np.newaxis, np.newaxis]
    np.testing.assert_allclose(found.step, event_makespans(cluster, factor), rtol=1e-12)
    assert len(np.unique(found.step)) == 3 * LANE


@pytest.mark.parametrize(
    "given",
    [
        {"transient": ("normal", 0.1), "persistent": ("normal", 0.1), "round_steps": 2},
        {"jitter": ("normal", 0.1), "common": ("normal", 0.1)},
    ],
)
def test_rounds_of_the_same_draws(given: dict[str, Any]) -> None:
    cluster = cluster_of(**given)
    found = repeated_rounds(cluster, 3, 2, 3)
    assert found.step[0].tolist() == rounds_of(cluster, 3, 2).step.tolist()
    assert len({tuple(row) for row in found.step.tolist()}) == 3
    # Their steps follow one another.
    long = cluster_of(**{**given, "round_steps": 3 * given.get("round_steps", 1)})
    common = rounds_of(long, 3, 2).common
    np.testing.assert_allclose(found.common.mean(axis=0), common, rtol=1e-12)


def test_rounds_of_the_same_draws_have_the_same_gpus() -> None:
    found = repeated_rounds(cluster_of(persistent=("normal", 0.1)), 3, 2, 2).step
    assert found[0].tolist() == found[1].tolist()
    assert found[0].std() > 0
