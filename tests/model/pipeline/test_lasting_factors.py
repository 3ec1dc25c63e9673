"""What lasts in drawn clusters."""

from typing import Any

import numpy as np
import pytest

from service.model.pipeline.lasting_factors import LastingFactors, without_slowest
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.drawn_by_hand import filled
from tests.model.pipeline.piped_fleets import cluster_of

LANES = range(400)


def test_of_equal_gpus_the_last_stand_by() -> None:
    factor = np.array([[1, 1, 3], [2, 1, 1], [1, 1, 2], [2, 1, 2], [0, 1, 1]], dtype=float)
    kept = without_slowest(factor, 2)
    np.testing.assert_array_equal(kept, [[1, 1, 1], [0, 1, 1], [1, 1, 2]])
    rng = np.random.default_rng(0)
    many = rng.integers(0, 4, (30, 50)).astype(float)
    for number in (1, 7, 29):
        expected = []
        for column in many.T:
            gone = np.lexsort((-np.arange(30), -column))[:number]
            expected.append(filled(column, gone.tolist()))
        np.testing.assert_array_equal(without_slowest(many, number), np.array(expected).T)


def test_large_clusters_are_sorted_some_draws_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"persistent": ("normal", 0.1), "node": ("normal", 0.1)}
    cluster = cluster_of([(2, 1.5, RANDOM)], num_removed=2, gpus_per_node=4, **given)
    whole = LastingFactors(cluster, seed=0).of_lanes(LANES, range(6))
    monkeypatch.setattr("service.model.pipeline.lasting_factors._AT_ONCE", 100)
    monkeypatch.setattr("service.model.pipeline.lasting_factors._RANKS_AT_ONCE", 3)
    parts = LastingFactors(cluster, seed=0).of_lanes(LANES, range(6))
    np.testing.assert_array_equal(parts, whole)


def test_random_places_are_uniform_over_the_free_ones() -> None:
    slow = [(2, 1.5, RANDOM), (1, 2.0, RANDOM), (1, 1.2, 1), (1, 1.0, RANDOM)]
    drawn = LastingFactors(cluster_of(slow), seed=0)
    assert drawn.needs_all
    assert not drawn.is_constant
    factor = drawn.of_lanes(LANES, range(6))
    number = len(LANES) * LANE
    assert (factor[1] == 1.2).all()
    for value, count in ((1.5, 2), (2.0, 1)):
        assert ((factor == value).sum(axis=0) == count).all()
        share = (factor == value).mean(axis=1)[[0, 2, 3, 4, 5]]
        np.testing.assert_allclose(share, count / 5, atol=4 * (0.24 / number) ** 0.5)
    # Pairs of places too.
    pairs = ((factor[0] == 1.5) & (factor[5] == 2.0)).mean()
    assert pairs == pytest.approx(2 / 20, abs=4 * (0.09 / number) ** 0.5)


def test_constant_clusters() -> None:
    even = LastingFactors(cluster_of(), seed=0)
    assert even.is_constant
    assert even.is_one
    placed = LastingFactors(cluster_of([(1, 1.5, 2)]), seed=0)
    assert placed.is_constant
    assert not placed.is_one
    np.testing.assert_array_equal(placed.of_lanes(LANES, range(1, 5))[:, 0], [1, 1.5, 1, 1])


def test_parts_are_those_of_the_whole() -> None:
    given: dict[str, Any] = {
        "persistent": ("gamma", 0.1),
        "node": ("normal", 0.1),
        "gpus_per_node": 4,
    }
    for num_removed in (0, 3):
        drawn = LastingFactors(
            cluster_of(replicas=5, tensor=4, num_removed=num_removed, **given), seed=0
        )
        whole = drawn.of_lanes(range(3), range(60))
        assert whole.shape == (60, 3 * LANE)
        for start, stop in ((0, 7), (13, 14), (30, 60)):
            part = drawn.of_lanes(range(1, 2), range(start, stop))
            np.testing.assert_array_equal(part, whole[start:stop, LANE : 2 * LANE])


def test_nodes_are_shared() -> None:
    drawn = LastingFactors(cluster_of(node=("normal", 0.1), gpus_per_node=4, replicas=4), seed=3)
    factor = drawn.of_lanes(range(1), range(12)).reshape(3, 4, LANE)
    assert (factor == factor[:, :1]).all()
    assert len(np.unique(factor)) == 3 * LANE


def test_gpus_keep_their_numbers_when_the_cluster_grows() -> None:
    few, many = (
        LastingFactors(cluster_of(persistent=("normal", 0.1), replicas=replicas), seed=3)
        for replicas in (2, 200)
    )
    np.testing.assert_array_equal(
        few.of_lanes(range(2), range(6)), many.of_lanes(range(2), range(6))
    )
