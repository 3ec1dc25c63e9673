"""What lasts in each replication: a random cluster, rank by rank."""

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.score_factors import ScoreFactors
from service.model.recursion.scores import (
    LANE,
    NODE,
    PERSISTENT,
    PLACES,
    ROUNDING,
    cluster_scores,
    cluster_uniforms,
)


def num_ranks(fleet: Fleet) -> NDArray[np.int64]:
    """(points,) GPUs, those that stand by included."""
    counts: NDArray[np.int64] = np.rint(fleet.num_gpus.sum(axis=0)).astype(np.int64)
    return counts


def lasting_factors(fleet: Fleet, seed: int, num_lanes: int, padded: int) -> Floats:
    """(padded ranks, points, replications): class, persistent and node; 0 for whom nobody waits.

    Those are the `num_removed` slowest, and the ranks that only pad a smaller cluster.
    """
    factors = _classes(fleet, seed, num_lanes, padded)
    drawn = np.empty_like(factors)
    if fleet.persistent is not None:
        ScoreFactors(fleet.persistent).write(
            cluster_scores(seed, PERSISTENT, num_lanes, padded), drawn
        )
        factors *= drawn
    if fleet.node is not None:
        of_node = cluster_scores(seed, NODE, num_lanes, padded)
        for point, size in enumerate(fleet.gpus_per_node.tolist()):
            node = np.arange(padded) // size
            part = np.empty((padded, 1, num_lanes * LANE))
            source = fleet.node.part(slice(point, point + 1))
            ScoreFactors(source).write(of_node[node], part)
            factors[:, point] *= part[:, 0]
    for point, number in enumerate(num_ranks(fleet).tolist()):
        factors[number:, point] = 0.0
        removed = int(fleet.num_removed[point])
        if removed:
            slowest = np.argpartition(factors[:number, point], number - removed, axis=0)
            np.put_along_axis(factors[:, point], slowest[number - removed :], 0.0, axis=0)
            # Those who work close the gaps: tensor-parallel groups are formed of them.
            order = np.argsort(factors[:, point] == 0, axis=0, kind="stable")
            factors[:, point] = np.take_along_axis(factors[:, point], order, axis=0)
    return factors


def _classes(fleet: Fleet, seed: int, num_lanes: int, padded: int) -> Floats:
    """Slow classes on random ranks; the first so many where ranks are all alike but for that."""
    replications = num_lanes * LANE
    factors = np.empty((padded, fleet.num_points, replications))
    factors[:] = fleet.mean[0][:, np.newaxis]
    if len(fleet.mean) == 1:
        return factors
    shift = cluster_uniforms(seed, ROUNDING, num_lanes, 1)[0]
    alike = fleet.node is None and bool((fleet.tensor_parallel_size == 1).all())
    order = cluster_uniforms(seed, PLACES, num_lanes, 1 if alike else padded)
    for point, number in enumerate(num_ranks(fleet).tolist()):
        # Systematic sampling makes fractional numbers whole and leaves whole ones (Madow, 1944).
        ends = np.round(np.cumsum(fleet.num_gpus[1:, point]), 9)
        bounds = np.floor(ends[:, np.newaxis] + shift)
        place = np.broadcast_to(np.arange(number)[:, np.newaxis], (number, replications))
        if not alike:
            place = order[:number].argsort(axis=0).argsort(axis=0)
        kind = (place >= bounds[:, np.newaxis]).sum(axis=0)
        mean = np.append(fleet.mean[1:, point], fleet.mean[0, point])
        factors[:number, point] = mean[kind]
    return factors
