"""Slow GPUs on places that are no matter of chance: on a stage, or where they hurt most.

On a stage they take its GPUs replica by replica, groups one after the other as they are listed. The
worst is one on as many stages of the first replica as there are GPUs, slowest on the stages where
the replica's step becomes longest, nothing else varying (of equally bad ones the first stages);
those left over fill that replica, then the following ones.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import OneCluster, SlowGroup
from service.model.pipeline.shape import RANDOM, WORST

MAX_WORST_PLACEMENTS = 4096
MOST_FOUND = 64
"""Worst places that are kept, by all that they depend on."""
_MOST_EXACT = 10**300
_EQUAL = 1e-12


class FixedPlaces(NamedTuple):
    """The first replicas, beyond which no GPU is placed; (replicas, stages, T) each.

    factor   of each GPU, 1 where none is placed
    is_free  whether none is
    """

    factor: Floats
    is_free: NDArray[np.bool_]


_FOUND: dict[tuple[tuple[str, int, int, int], bytes, bytes, bytes], NDArray[np.intp]] = {}


def num_worst_placements(stages: int, count: Floats, factor: Floats) -> Floats:
    """(points,) ways to put the slowest GPUs on different stages; infinite beyond 1e300.

    count, factor   (groups, points) of the groups whose placement is the worst
    """
    found = np.ones(count.shape[1])
    for point, (counts, factors) in enumerate(zip(count.T, factor.T, strict=True)):
        distinct, group = np.unique(-factors, return_inverse=True)
        merged = np.bincount(group, counts, len(distinct)).astype(np.int64)
        ways = _num_assignments(stages, merged.tolist())
        found[point] = float(ways) if ways < _MOST_EXACT else np.inf
    return found


def _num_assignments(num_free: int, counts: list[int]) -> int:
    """Ways to put so many equal GPUs of each kind on different stages, slowest kinds first."""
    ways = 1
    for count in counts:
        taken = min(num_free, count)
        ways *= comb(num_free, taken)
        num_free -= taken
    return ways


def num_replicas_placed(cluster: OneCluster) -> int:
    """Replicas from the first to the last with a placed GPU."""
    of_stage: dict[int, int] = {}
    for group in cluster.slow_groups:
        of_stage[group.placement] = of_stage.get(group.placement, 0) + group.number
    of_stage.pop(RANDOM, None)
    size = cluster.tensor_size
    in_all = -(-sum(of_stage.values()) // (size * cluster.stages))
    of_stage.pop(WORST, None)
    return max([in_all, *(-(-count // size) for count in of_stage.values())])


def fixed_places(cluster: OneCluster) -> FixedPlaces:
    """Of a cluster that keeps the rules; ValueError where too many placements are to be tried."""
    by_stage: dict[int, list[SlowGroup]] = {}
    for group in cluster.slow_groups:
        by_stage.setdefault(group.placement, []).append(group)
    shape = (num_replicas_placed(cluster), cluster.stages, cluster.tensor_size)
    places = FixedPlaces(np.ones(shape), np.ones(shape, dtype=np.bool_))
    by_stage.pop(RANDOM, None)
    worst = by_stage.pop(WORST, None)
    for stage, groups in by_stage.items():
        _put(places, stage, groups)
    if worst is not None:
        _put_worst(cluster, places, worst)
    return places


def _put(places: FixedPlaces, stage: int, groups: list[SlowGroup]) -> None:
    """On the first GPUs of a stage, in place."""
    factors = _factors(groups)
    replica, place = np.divmod(np.arange(len(factors)), places.factor.shape[2])
    places.factor[replica, stage, place] = factors
    places.is_free[replica, stage, place] = False


def _put_worst(cluster: OneCluster, places: FixedPlaces, groups: list[SlowGroup]) -> None:
    factors = -np.sort(-_factors(groups))
    free = np.flatnonzero(places.is_free[0].any(axis=1))
    first = factors[: len(free)]
    stages = free[_worst_assignment(cluster, places.factor[0].max(axis=1), free, first)]
    place = places.is_free[0, stages].argmax(axis=1)
    places.factor[0, stages, place] = first
    places.is_free[0, stages, place] = False
    rest = factors[len(free) :]
    flat = np.flatnonzero(places.is_free)[: len(rest)]
    places.factor.flat[flat] = rest
    places.is_free.flat[flat] = False


def _worst_assignment(
    cluster: OneCluster, base: Floats, free: NDArray[np.intp], factors: Floats
) -> NDArray[np.intp]:
    """(GPUs,) different places in `free` for these factors, slowest first.

    Kept: a point asks for it again without what varies, and for its spread.
    """
    shape = cluster.shape
    key = (
        (shape.schedule, shape.stages, shape.microbatches, shape.chunks),
        np.concatenate([shape.forward.ravel(), shape.backward.ravel()]).tobytes(),
        np.concatenate([shape.weight_fraction, shape.p2p]).tobytes(),
        np.concatenate([base, free, factors]).tobytes(),
    )
    found = _FOUND.get(key)
    if found is None:
        found = _FOUND[key] = _tried(cluster, base, free, factors)
        for oldest in list(_FOUND)[: max(len(_FOUND) - MOST_FOUND, 0)]:
            _FOUND.pop(oldest, None)
    return found


def _tried(
    cluster: OneCluster, base: Floats, free: NDArray[np.intp], factors: Floats
) -> NDArray[np.intp]:
    """Likewise, by trying all ways."""
    counts = np.unique(-factors, return_counts=True)[1].tolist()
    ways = _num_assignments(len(free), counts)
    if ways > MAX_WORST_PLACEMENTS:
        raise ValueError(f"{ways} ways to place slow GPUs, more than {MAX_WORST_PLACEMENTS}")
    places = np.array(_assignments(len(free), counts), dtype=np.intp)
    of_stage = np.repeat(base[:, np.newaxis], len(places), axis=1)
    for place, factor in zip(places.T, factors.tolist(), strict=True):
        of_stage[free[place], np.arange(len(places))] = np.maximum(base[free[place]], factor)
    makespan = cluster.makespans(of_stage)
    # Round-off chooses none among equals.
    worst: NDArray[np.intp] = places[np.argmax(makespan >= makespan.max() * (1 - _EQUAL))]
    return worst


def _assignments(num_free: int, counts: list[int]) -> list[tuple[int, ...]]:
    """Different places for equal GPUs of each kind, all ways that differ."""
    found: list[tuple[int, ...]] = [()]
    for count in counts:
        found = [
            (*before, *places)
            for before in found
            for places in combinations(sorted(set(range(num_free)) - set(before)), count)
        ]
    return found


def _factors(groups: list[SlowGroup]) -> Floats:
    return np.repeat([group.factor for group in groups], [group.number for group in groups])
