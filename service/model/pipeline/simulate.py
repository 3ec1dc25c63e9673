"""Steps of pipelined clusters whose GPUs differ or vary.

A step takes what the slowest replica takes (with backup replicas: the slowest of those that are
waited for), a replica what its plan takes with every stage at its slowest GPU. Where GPUs are only
slow or not (slow groups on random places, spikes, episodes), the distribution is worked out
(`random_places.py`) while there are not too many states; everything else is drawn, steadied by what
that part is known to do. Definitions: design page "The model", sections 3, 7 and 11.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline.known_parts import known_parts, spikes_alone
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.rare_spikes import rare_spikes
from service.model.pipeline.replica_states import is_exact
from service.model.pipeline.rounds import rounds_of
from service.model.pipeline.step_estimates import (
    LEAST_UNTRIED,
    Known,
    OverTime,
    expected_over_time,
    expected_step,
)
from service.model.pipeline.step_factors import DrawnSteps
from service.model.pipeline.weighted_quantiles import weighted_quantiles
from service.model.slowest.barrier import PROBABILITIES

Ints = NDArray[np.int64]


class Piped(NamedTuple):
    """Factors on the nominal compute of a step.

    mean        (points,) of a step, at least its `floor`; with episodes the mean over time
    rest        (points,) without the floor
    mean_se     (points,) standard error of the mean, 0 where `is_exact`
    quantiles   (points, 3) of one round's mean step: p50, p95, p99
    variance    (points,) of that over rounds and clusters
    is_exact    (points,) whether nothing was sampled
    """

    mean: Floats
    rest: Floats
    mean_se: Floats
    quantiles: Floats
    variance: Floats
    is_exact: NDArray[np.bool_]


class _One(NamedTuple):
    """Likewise of one point."""

    mean: float
    rest: float
    mean_se: float
    quantiles: Floats
    variance: float
    is_exact: bool


def simulate_pipelines(fleet: Fleet, seed: Ints, draws: Ints) -> Piped:
    """Every point; seed, draws (points,). Draws are rounded up to lanes of eight."""
    found = [
        _exact(cluster)
        if is_exact(cluster)
        else _sampled(cluster, int(point_seed), num_lanes_of(int(number)))
        for cluster, point_seed, number in zip(clusters_of(fleet), seed, draws, strict=True)
    ]
    columns = [np.array(column) for column in zip(*found, strict=True)]
    return Piped(*columns)


def num_lanes_of(draws: int) -> int:
    """Lanes that hold so many draws."""
    return -(-draws // LANE)


def _exact(cluster: OneCluster) -> _One:
    placements = placements_of(cluster)
    probability, rest = placements.step_probability, placements.step
    step = np.maximum(rest, cluster.floor)
    plain = float(probability @ step)
    weight = probability
    if cluster.fleet.episodes is not None:
        # Time shares of states to shares of the steps that are done.
        weight = probability / (cluster.fleet.outside_ratio[0] + step)
        weight /= weight.sum()
    return _One(
        mean=float(weight @ step),
        rest=float(weight @ rest),
        mean_se=0.0,
        quantiles=weighted_quantiles(step, probability, PROBABILITIES),
        variance=float(probability @ (step - plain) ** 2),
        is_exact=True,
    )


def _sampled(cluster: OneCluster, seed: int, num_lanes: int) -> _One:
    rounds = rounds_of(cluster, seed, num_lanes)
    step = np.maximum(rounds.step, cluster.floor)
    of_state = DrawnSteps(cluster, seed).draws_of_state
    parts = known_parts(cluster)
    known = [_known(part, seed, len(step) // of_state) for part in parts]
    passing = _passing(cluster, parts, seed, num_lanes)
    share = untried_share(cluster)
    if cluster.fleet.episodes is None:
        expected = expected_step(rounds, cluster.floor, [*known, *passing], share)
    else:
        over_time = OverTime(float(cluster.fleet.outside_ratio[0]), of_state)
        expected = expected_over_time(rounds, cluster.floor, over_time, known, passing, share=share)
    equal = np.full(len(step), 1 / len(step))
    return _One(
        mean=expected.mean,
        rest=expected.rest,
        mean_se=expected.mean_se,
        quantiles=weighted_quantiles(step, equal, PROBABILITIES),
        variance=float(step.var(ddof=1)),
        is_exact=False,
    )


def _passing(
    cluster: OneCluster, parts: Sequence[OneCluster], seed: int, num_lanes: int
) -> list[Known]:
    """Spikes, where they are not among the parts that are known: alone, or to first order."""
    if any(part.fleet.spikes is not None for part in parts):
        return []
    alone = spikes_alone(cluster)
    if alone is not None:
        return [_known(alone, seed, num_lanes * LANE)]
    rare = rare_spikes(cluster, num_lanes * LANE)
    if rare is None:
        return []
    return [Known(rounds_of(rare.part, seed, num_lanes).step, rare.step, rare.probability)]


def untried_share(cluster: OneCluster) -> float:
    """By how much what is known may act differently beside the rest, of what it does alone.

    A spike is as long as its GPU's step: as uncertain as the other factors of one GPU.
    """
    fleet = cluster.fleet
    sources = (fleet.persistent, fleet.node, fleet.transient, fleet.replica, cluster.shape.jitter)
    cvs = [float(source.shape[0, 0]) for source in sources if source is not None]
    return float(np.hypot.reduce([LEAST_UNTRIED, *cvs]))


def _known(part: OneCluster, seed: int, number: int) -> Known:
    """Of so many draws, or states that last."""
    drawn = rounds_of(part, seed, num_lanes_of(number)).step[:number]
    placements = placements_of(part)
    return Known(drawn, placements.step, placements.step_probability)
