"""What a replica can be where GPUs are slow or not: the slowest GPU of each of its stages.

GPUs are slow on random places (slow groups), or each with a probability of its own (spikes,
episodes).
"""

from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats
from service.model.pipeline.fixed_places import fixed_places, num_replicas_placed
from service.model.pipeline.one_cluster import OneCluster

MAX_STATES = 1 << 16
"""Of all replicas that differ: as many makespans have to be worked out."""
MAX_OPERATIONS = 1 << 27
"""Of all these makespans."""
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


class Spells(NamedTuple):
    """What a GPU's factor is multiplied with, rising from 1, and how probably: (spells,) each."""

    factor: Floats
    probability: Floats


class Stage(NamedTuple):
    """A stage of replicas that are alike before chance slows GPUs.

    num_free   GPUs that none is placed on; `placed` the factors of the others
    value      (values,) what its slowest GPU can be, rising
    is_random  (values,) whether that takes a GPU on a random place
    """

    num_free: int
    placed: Floats
    value: Floats
    is_random: NDArray[np.bool_]


class Alike(NamedTuple):
    """Replicas that are alike before chance slows GPUs.

    number   of them
    level    (states, stages) index of the value of each stage
    factor   (stages, states) that value
    """

    number: int
    stages: list[Stage]
    level: NDArray[np.intp]
    factor: Floats

    @property
    def num_free(self) -> int:
        """GPUs of one replica that none is placed on."""
        return sum(stage.num_free for stage in self.stages)


def kinds_of(cluster: OneCluster) -> Kinds:
    """Those on random places that are slower than nominal; equal ones are one kind."""
    groups = [group for group in cluster.random_groups if group.factor > 1]
    factor, kind = np.unique([group.factor for group in groups], return_inverse=True)
    count = np.bincount(kind, [group.number for group in groups], len(factor)).astype(np.int64)
    fixed = sum(group.number for group in cluster.slow_groups)
    fixed -= sum(group.number for group in cluster.random_groups)
    return Kinds(factor, count, cluster.num_working - fixed)


def spells_of(cluster: OneCluster) -> Spells:
    """Of spikes, or else of episodes; 1 for certain where there are none."""
    spikes, episodes = cluster.fleet.spikes, cluster.fleet.episodes
    factor, chance = 1.0, 0.0
    if spikes is not None:
        factor, chance = float(spikes.slowdown[0]), float(spikes.probability[0])
    elif episodes is not None:
        factor, chance = float(episodes.severity[0]), float(episodes.occupancy[0])
    if factor == 1 or chance == 0:
        return Spells(np.ones(1), np.ones(1))
    return Spells(np.array([1.0, factor]), np.array([1 - chance, chance]))


def num_states(cluster: OneCluster) -> int:
    """At most so many makespans are worked out; counted to a little above MAX_STATES."""
    replicas = min(cluster.num_replicas, num_replicas_placed(cluster) + 1)
    kinds, spells = kinds_of(cluster), spells_of(cluster)
    others = len(spells.factor)
    if others > 1:
        fixed = {group.factor for group in cluster.slow_groups} - set(kinds.factor.tolist())
        others *= 1 + len(fixed)
    random = len(kinds.number) * len(spells.factor)
    number = 0
    for size in range(min(cluster.stages, int(kinds.number.sum())) + 1):
        number += comb(cluster.stages, size) * random**size * others ** (cluster.stages - size)
        if number > MAX_STATES:
            break
    return number * replicas


def is_exact(cluster: OneCluster) -> bool:
    """Whether the distribution of steps is worked out; it is where GPUs are only slow or not.

    Episodes are states that last: over them nothing else is to be averaged.
    """
    fleet = cluster.fleet
    drawn = (fleet.transient, fleet.persistent, fleet.node, fleet.replica, fleet.common)
    if cluster.shape.jitter is not None or any(source is not None for source in drawn):
        return False
    kinds = kinds_of(cluster)
    if fleet.spikes is not None and (
        cluster.shape.round_steps[0] > 1 or fleet.episodes is not None
    ):
        return False
    if fleet.episodes is not None and len(kinds.number) > 0:
        return False
    if len(kinds.number) == 0 and len(spells_of(cluster).factor) == 1:
        return True
    if cluster.num_backup > MAX_BACKUP:
        return False
    states = num_states(cluster)
    angles = np.prod(np.array(kinds.num_angles, dtype=np.float64))
    return bool(
        states <= MAX_STATES
        and states * angles <= MAX_STATE_ANGLES
        and states * cluster.num_operations <= MAX_OPERATIONS
    )


def alike_replicas(cluster: OneCluster, kinds: Kinds, spells: Spells) -> list[Alike]:
    """All replicas by what is placed on them already."""
    places = fixed_places(cluster)
    # 0 for free places, which go first.
    placed = np.where(places.is_free, 0.0, places.factor)
    if len(spells.factor) == 1:
        placed = np.where(places.is_free, 0.0, placed.max(axis=2, keepdims=True))
    placed.sort(axis=2)
    free = np.zeros((1, cluster.stages, cluster.tensor_size))
    rows, number = np.unique(placed, axis=0, return_counts=True)
    number = np.append(number, cluster.num_replicas - len(placed))
    found = []
    for row, replicas in zip(np.concatenate([rows, free]), number.tolist(), strict=True):
        if replicas > 0:
            stages = [_stage(of_stage, kinds, spells) for of_stage in row]
            level = _levels(stages, int(kinds.number.sum()))
            values = [stage.value[of] for stage, of in zip(stages, level.T, strict=True)]
            found.append(Alike(replicas, stages, level, np.array(values)))
    return found


def _stage(row: Floats, kinds: Kinds, spells: Spells) -> Stage:
    placed = row[row > 0]
    num_free = len(row) - len(placed)
    certain = (placed[:, np.newaxis] * spells.factor).ravel()
    if num_free > 0:
        certain = np.append(certain, spells.factor)
    random = (kinds.factor[:, np.newaxis] * spells.factor).ravel()[: None if num_free else 0]
    value = np.unique(np.concatenate([certain, random]))
    # No placed GPU is faster than it is.
    value = value[value >= placed.max(initial=1.0)]
    return Stage(num_free, placed, value, ~np.isin(value, certain))


def _levels(stages: list[Stage], most_random: int) -> NDArray[np.intp]:
    """(states, stages) all that there are GPUs for."""
    levels = np.empty((1, 0), dtype=np.intp)
    random = np.zeros(1, dtype=np.int64)
    for stage in stages:
        further = np.tile(np.arange(len(stage.value)), len(levels))
        levels = np.column_stack([levels.repeat(len(stage.value), axis=0), further])
        random = random.repeat(len(stage.value)) + stage.is_random[further]
        levels, random = levels[random <= most_random], random[random <= most_random]
    return levels
