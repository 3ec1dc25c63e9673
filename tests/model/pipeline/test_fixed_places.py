"""Slow GPUs on a stage, and where they hurt most."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from service.model.laws.law import Floats
from service.model.pipeline import fixed_places as module
from service.model.pipeline.fixed_places import (
    MAX_WORST_PLACEMENTS,
    fixed_places,
    num_replicas_placed,
    num_worst_placements,
)
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.shape import RANDOM, WORST
from tests.model.pipeline.piped_fleets import Group, cluster_of, event_makespans


def test_on_a_stage_replica_by_replica() -> None:
    cluster = cluster_of([(3, 1.5, 1), (9, 2.0, RANDOM), (2, 1.2, 1)], replicas=4, tensor=2)
    places = fixed_places(cluster)
    expected = np.ones((3, 3, 2))
    expected[:, 1] = [[1.5, 1.5], [1.5, 1.2], [1.2, 1.0]]
    np.testing.assert_array_equal(places.factor, expected)
    np.testing.assert_array_equal(places.is_free, expected == 1)
    assert num_replicas_placed(cluster) == 3


def test_nothing_placed() -> None:
    cluster = cluster_of([(2, 1.5, RANDOM)])
    assert fixed_places(cluster).factor.shape == (0, 3, 1)
    assert num_replicas_placed(cluster) == 0


@pytest.mark.parametrize(
    "slow",
    [
        [(1, 1.5, WORST)],
        [(2, 1.5, WORST)],
        [(3, 1.5, WORST)],
        [(1, 1.2, WORST), (1, 1.7, WORST)],
        [(2, 1.2, WORST), (1, 1.7, WORST)],
        [(1, 1.3, 2), (2, 1.2, WORST), (1, 1.7, WORST)],
    ],
)
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_worst_by_trying_all(slow: list[Group], schedule: str) -> None:
    # The second stage may hold two of them, never while another is free.
    given = {"schedule": schedule, "stages": 4, "replicas": 1, "tensor": 2}
    cluster = cluster_of(slow, **given)
    placed = [group for group in slow if group[2] != WORST]
    factors = [factor for number, factor, place in slow if place == WORST for _ in range(number)]
    base = np.ones(4)
    for _, factor, stage in placed:
        base[stage] = factor
    lanes = []
    for stages in permutations(range(4), len(factors)):
        lane = base.copy()
        lane[list(stages)] = np.maximum(base[list(stages)], factors)
        lanes.append(lane)
    lanes_of_stage = np.array(lanes).T[:, np.newaxis, np.newaxis]
    worst = event_makespans(cluster, lanes_of_stage).max()
    places = fixed_places(cluster)
    found = places.factor.max(axis=2)
    assert cluster.makespans(found.T)[0] == pytest.approx(worst, rel=1e-12)
    assert sorted(places.factor[~places.is_free]) == sorted(
        [*factors, *(factor for _, factor, _ in placed)]
    )


def test_surplus_fills_the_first_replica_and_then_others() -> None:
    cluster = cluster_of([(2, 1.2, WORST), (6, 1.5, WORST)], replicas=3, tensor=2)
    places = fixed_places(cluster)
    expected = np.ones((2, 3, 2))
    expected[0] = 1.5
    expected[1, 0] = 1.2
    np.testing.assert_array_equal(places.factor, expected)


def test_full_stages_take_no_more() -> None:
    cluster = cluster_of([(2, 1.1, 1), (1, 1.5, WORST)], tensor=2, replicas=1)
    places = fixed_places(cluster)
    np.testing.assert_array_equal(places.factor[0, 1], [1.1, 1.1])
    assert (places.factor[0, [0, 2]] == 1.5).sum() == 1


def test_no_room_in_the_first_replica() -> None:
    cluster = cluster_of([(1, 1.5, WORST), (1, 1.1, 0)], stages=1, replicas=2)
    np.testing.assert_array_equal(fixed_places(cluster).factor.ravel(), [1.1, 1.5])


def test_of_equally_bad_places_the_first() -> None:
    """GPipe takes as long wherever slow GPUs sit; sums of its times differ by round-off."""
    for stages in range(2, 8):
        for microbatches in (3, 7, 10):
            cluster = cluster_of(
                [(2, 1.31, WORST)], schedule="gpipe", stages=stages, microbatches=microbatches
            )
            even = np.full((stages, 1), 0.1 / 3)
            shape = replace(cluster.shape, forward=even, backward=3 * even, p2p=np.zeros(1))
            places = fixed_places(replace(cluster, shape=shape)).factor[0, :, 0]
            np.testing.assert_array_equal(np.flatnonzero(places > 1), [0, 1])


def test_numbers_of_worst_placements() -> None:
    count = np.array([[1, 2, 9, 0, 500], [1, 3, 1, 0, 0], [0, 0, 2, 0, 0]], dtype=float)
    factor = np.array([[1.5] * 5, [1.2, 1.2, 1.7, 1.0, 1.0], [1.0, 1.0, 1.5, 1.0, 1.0]])
    found = num_worst_placements(8, count, factor)
    # 8 x 7; 28 x 20; 8 x 1 (the others fill the rest alike); nothing; all alike.
    np.testing.assert_array_equal(found, [56, 560, 8, 1, 1])
    assert num_worst_placements(1024, np.array([[512.0]]), np.array([[1.5]]))[0] == np.inf


def test_too_many_to_be_tried() -> None:
    stages = 30
    cluster = cluster_of([(6, 1.5, WORST)], stages=stages, replicas=1)
    assert num_worst_placements(stages, np.array([[6.0]]), np.array([[1.5]])) == [593_775]
    with pytest.raises(ValueError, match=f"593775 ways .* more than {MAX_WORST_PLACEMENTS}"):
        fixed_places(cluster)


def test_many_stages() -> None:
    cluster = cluster_of([(1, 1.5, WORST)], stages=256, microbatches=2, replicas=1)
    assert (fixed_places(cluster).factor == 1.5).sum() == 1


def test_worst_places_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FOUND", {})
    monkeypatch.setattr(module, "MOST_FOUND", 2)
    tried: list[OneCluster] = []
    as_ever = OneCluster.makespans

    def counted(cluster: OneCluster, factor: Floats, jitter: Floats | None = None) -> Floats:
        tried.append(cluster)
        return as_ever(cluster, factor, jitter)

    monkeypatch.setattr(OneCluster, "makespans", counted)
    one = cluster_of([(1, 1.5, WORST)])
    first = fixed_places(one).factor
    np.testing.assert_array_equal(fixed_places(cluster_of([(1, 1.5, WORST)])).factor, first)
    assert len(tried) == 1
    # Anything that it depends on: the factor, sizes, times, what else is placed.
    others: tuple[tuple[list[Group], dict[str, Any]], ...] = (
        ([(1, 1.6, WORST)], {}),
        ([(1, 1.5, WORST)], {"microbatches": 5}),
        ([(1, 1.5, WORST)], {"p2p": 0.5}),
        ([(1, 1.5, WORST), (1, 1.5, 1)], {}),
    )
    for number, (slow, given) in enumerate(others, start=2):
        fixed_places(cluster_of(slow, **given))
        assert len(tried) == number
    # The first went, being the oldest.
    fixed_places(one)
    assert len(tried) == len(others) + 2
