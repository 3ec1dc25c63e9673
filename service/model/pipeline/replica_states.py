"""What random places of slow GPUs can do to a replica: the slowest kind on each of its stages."""

from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats
from service.model.pipeline.fixed_places import fixed_places, num_replicas_placed
from service.model.pipeline.one_cluster import OneCluster

MAX_STATES = 4096
"""Of all replicas that differ: as many makespans have to be worked out."""
MAX_STATE_ANGLES = 1 << 21
MAX_BACKUP = 16
_LEAST_ANGLES, _ANGLES_PER_SD = 12, 10


class Kinds(NamedTuple):
    """GPUs on random places, by factor, the fastest first: (kinds,) each.

    `num_free` places are there for all of them.
    """

    factor: Floats
    number: NDArray[np.int64]
    num_free: int

    @property
    def share(self) -> Floats:
        """(kinds,) of the free places."""
        share: Floats = self.number / max(self.num_free, 1)
        return share

    @property
    def num_angles(self) -> list[int]:
        """For each kind; numbers of GPUs that differ by as many are not told apart."""
        sd = np.sqrt(self.number * (1 - self.share))
        needed = np.minimum(self.num_free + 1, np.ceil(_LEAST_ANGLES + _ANGLES_PER_SD * sd))
        return [int(number) for number in needed]


class Alike(NamedTuple):
    """Replicas that are alike before the random GPUs are placed.

    number     of them
    num_free   (stages,) places of each stage
    level      (states, stages) 0 for nominal GPUs only, else 1 + the slowest kind on the stage
    factor     (stages, states)
    """

    number: int
    num_free: NDArray[np.int64]
    level: NDArray[np.intp]
    factor: Floats


def kinds_of(cluster: OneCluster) -> Kinds:
    """Those on random places that are slower than nominal; equal ones are one kind."""
    groups = [group for group in cluster.random_groups if group.factor > 1]
    factor, kind = np.unique([group.factor for group in groups], return_inverse=True)
    count = np.bincount(kind, [group.number for group in groups], len(factor)).astype(np.int64)
    fixed = sum(group.number for group in cluster.slow_groups)
    fixed -= sum(group.number for group in cluster.random_groups)
    return Kinds(factor, count, cluster.num_working - fixed)


def num_states(cluster: OneCluster) -> int:
    """At most so many makespans are worked out over all placements; counted to MAX_STATES."""
    replicas = min(cluster.num_replicas, num_replicas_placed(cluster) + 1)
    kinds = kinds_of(cluster)
    if len(kinds.number) == 0:
        return replicas
    number = 0
    for size in range(min(cluster.stages, int(kinds.number.sum())) + 1):
        number += comb(cluster.stages, size) * len(kinds.number) ** size
        if number > MAX_STATES:
            break
    return number * replicas


def is_exact(cluster: OneCluster) -> bool:
    """Whether the distribution over placements is worked out; nothing else may be random."""
    kinds = kinds_of(cluster)
    if len(kinds.number) == 0:
        return True
    if cluster.num_backup > MAX_BACKUP:
        return False
    states = num_states(cluster)
    angles = np.prod(np.array(kinds.num_angles, dtype=np.float64))
    return bool(states <= MAX_STATES and states * angles <= MAX_STATE_ANGLES)


def alike_replicas(cluster: OneCluster, kinds: Kinds) -> list[Alike]:
    """All replicas by what is placed on them already."""
    places = fixed_places(cluster)
    base, free = places.factor.max(axis=2), places.is_free.sum(axis=2)
    rows, number = np.unique(np.hstack([base, free]), axis=0, return_counts=True)
    rows = np.vstack([rows, np.repeat([1.0, cluster.tensor_size], cluster.stages)])
    number = np.append(number, cluster.num_replicas - len(base))
    of_level = np.append(1.0, kinds.factor)
    found = []
    for row, replicas in zip(rows[number > 0], number[number > 0].tolist(), strict=True):
        num_free = row[cluster.stages :].astype(np.int64)
        level = _levels(np.flatnonzero(num_free), kinds, cluster.stages)
        factor = np.maximum(row[: cluster.stages, np.newaxis], of_level[level.T])
        found.append(Alike(replicas, num_free, level, factor))
    return found


def _levels(free: NDArray[np.intp], kinds: Kinds, stages: int) -> NDArray[np.intp]:
    """(states, stages) all that there are GPUs for."""
    rows = []
    for size in range(min(len(free), int(kinds.number.sum())) + 1):
        for chosen in combinations(free.tolist(), size):
            for of_chosen in product(range(1, len(kinds.number) + 1), repeat=size):
                row = [0] * stages
                for stage, level in zip(chosen, of_chosen, strict=True):
                    row[stage] = level
                rows.append(row)
    return np.array(rows, dtype=np.intp)
