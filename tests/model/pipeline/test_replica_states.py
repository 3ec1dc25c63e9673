"""What random places can do to a replica, and when that is too much."""

from math import comb
from typing import Any

import numpy as np
import pytest

from service.model.pipeline.replica_states import (
    MAX_STATES,
    alike_replicas,
    is_exact,
    kinds_of,
    num_states,
    spells_of,
)
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.piped_fleets import Group, cluster_of


def test_kinds_are_merged_and_nominal_ones_left_out() -> None:
    slow = [(2, 1.5, RANDOM), (1, 1.2, RANDOM), (3, 1.5, RANDOM), (1, 1.0, RANDOM), (1, 1.9, 0)]
    kinds = kinds_of(cluster_of(slow, replicas=5))
    np.testing.assert_array_equal(kinds.factor, [1.2, 1.5])
    np.testing.assert_array_equal(kinds.number, [1, 5])
    assert kinds.num_free == 14
    np.testing.assert_allclose(kinds.share, [1 / 14, 5 / 14])
    assert kinds.num_angles == [15, 15]


@pytest.mark.parametrize(
    ("slow", "states"),
    [
        ([(1, 1.5, RANDOM)], 1 + 6),
        ([(2, 1.5, RANDOM)], 1 + 6 + 15),
        ([(90, 1.5, RANDOM)], 2**6),
        ([(1, 1.5, RANDOM), (1, 1.2, RANDOM)], 1 + 6 * 2 + 15 * 4),
        ([(90, 1.5, RANDOM), (9, 1.2, RANDOM)], 3**6),
    ],
)
def test_numbers_of_states(slow: list[Group], states: int) -> None:
    cluster = cluster_of(slow, stages=6, replicas=32)
    assert num_states(cluster) == states
    (alike,) = alike_replicas(cluster, kinds_of(cluster), spells_of(cluster))
    assert alike.factor.shape == (6, states)
    assert len(np.unique(alike.factor, axis=1).T) == states
    assert alike.number == 32


def test_replicas_with_placed_gpus_have_states_of_their_own() -> None:
    slow = [(1, 1.5, RANDOM), (3, 1.2, 0)]
    cluster = cluster_of(slow, replicas=4, tensor=2)
    full, half, free = sorted(
        alike_replicas(cluster, kinds_of(cluster), spells_of(cluster)),
        key=lambda alike: alike.num_free,
    )
    assert (full.number, half.number, free.number) == (1, 1, 2)
    # The full stage has no place for another one.
    assert (len(full.level), len(half.level), len(free.level)) == (3, 4, 4)
    assert num_states(cluster) >= 11
    assert full.factor[0].tolist() == [1.2] * 3
    assert half.factor.max() == 1.5


def test_limits() -> None:
    assert is_exact(cluster_of([(1, 1.5, RANDOM)], stages=64, replicas=2))
    many = cluster_of([(20, 1.5, RANDOM)], stages=17, replicas=4)
    assert num_states(many) > MAX_STATES
    assert not is_exact(many)
    assert sum(comb(17, size) for size in range(5)) < MAX_STATES
    long = cluster_of([(20, 1.5, RANDOM)], stages=12, replicas=4, microbatches=2048)
    assert num_states(long) == 4096
    assert not is_exact(long)
    # Few states, but numbers of two kinds to tell apart.
    wide = cluster_of(
        [(900, 1.5, RANDOM), (900, 1.2, RANDOM)], stages=6, replicas=600, microbatches=2
    )
    assert num_states(wide) <= MAX_STATES
    assert not is_exact(wide)
    backup = cluster_of([(1, 1.5, RANDOM)], replicas=40, num_backup=17)
    assert not is_exact(backup)
    assert is_exact(cluster_of([(5000, 1.5, 0)], replicas=5000, num_backup=17))


def test_spells() -> None:
    spikes = spells_of(cluster_of(spikes=(0.1, 1.5)))
    episodes = spells_of(cluster_of(episodes=(0.2, 1.2)))
    np.testing.assert_allclose(spikes, [[1, 1.5], [0.9, 0.1]])
    np.testing.assert_allclose(episodes, [[1, 1.2], [0.8, 0.2]])
    for spiked in ((0.0, 1.5), (0.1, 1.0)):
        assert spells_of(cluster_of(spikes=spiked)).factor.tolist() == [1.0]


@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize(
    "slow", [[], [(1, 1.5, RANDOM)], [(1, 1.2, 0)], [(2, 1.2, 1), (1, 1.7, 1), (3, 1.5, RANDOM)]]
)
def test_numbers_of_states_with_spells_are_not_exceeded(slow: list[Group], tensor: int) -> None:
    cluster = cluster_of(slow, replicas=5, tensor=tensor, spikes=(0.1, 1.3))
    alike = alike_replicas(cluster, kinds_of(cluster), spells_of(cluster))
    assert sum(some.number for some in alike) == 5
    assert 0 < sum(len(some.level) for some in alike) <= num_states(cluster)


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ({"spikes": (0.1, 1.5)}, True),
        ({"episodes": (0.1, 1.5), "slow": [(1, 1.5, 0)], "round_steps": 4}, True),
        ({"spikes": (0.1, 1.5), "slow": [(1, 1.5, RANDOM)]}, True),
        ({"spikes": (0.1, 1.5), "round_steps": 2}, False),
        ({"spikes": (0.1, 1.5), "episodes": (0.1, 1.5)}, False),
        ({"episodes": (0.1, 1.5), "slow": [(1, 1.5, RANDOM)]}, False),
        ({"spikes": (0.1, 1.5), "transient": ("normal", 0.1)}, False),
        ({"slow": [(1, 1.5, RANDOM)], "jitter": ("normal", 0.1)}, False),
        ({"slow": [(1, 1.5, 0)], "common": ("normal", 0.1)}, False),
        ({"spikes": (0.1, 1.5), "replicas": 40, "num_backup": 17}, False),
    ],
)
def test_what_is_worked_out(given: dict[str, Any], exact: bool) -> None:  # noqa: FBT001 - a case
    assert is_exact(cluster_of(**given)) == exact
