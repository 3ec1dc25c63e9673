"""One reproducible step of a job whose replicas are pipelines.

Draws are those of `rank_factors.py`, by the numbers that GPUs have among all that are held. Slow
GPUs sit where their `placement` says; random ones take the first GPUs that are free. Design page
"The model", sections 2 and 11; decisions 3.
"""

import numpy as np
from numpy.typing import NDArray

from service.model.active import num_backup
from service.model.columns import Columns, columns_of
from service.model.drawn_jitter import DrawnJitter
from service.model.drawn_passes import DrawnStep
from service.model.fields import Scenario
from service.model.fleets import fleet_of
from service.model.laws.law import Floats
from service.model.pipeline.fixed_places import fixed_places
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipelines import shape_of
from service.model.rank_factors import lasting_factors, replica_factors, step_factors
from service.model.stage_sizes import num_replicas
from service.model.times import num_used


def drawn_step(scenario: Scenario) -> DrawnStep:
    """Of a scenario with a pipeline that keeps the rules."""
    columns = columns_of(scenario)
    cluster = cluster_of(columns)
    speed = _speeds(cluster)
    lasting = lasting_factors(scenario, speed)
    working = _in_places(without_slowest(lasting, cluster.num_removed))
    factor = (lasting * step_factors(scenario, len(lasting)))[working]
    factor *= replica_factors(scenario, len(working), cluster.stages * cluster.tensor_size)
    return DrawnStep(
        columns=columns,
        cluster=cluster,
        rank=working,
        speed=speed[working],
        factor=factor,
        jitter=_jitter(scenario, cluster),
    )


def nominal_step(columns: Columns) -> DrawnStep:
    """Of one point with a pipeline: every GPU at nominal speed."""
    cluster = cluster_of(columns)
    # One number, however many GPUs.
    ones = np.broadcast_to(np.ones(1), cluster.num_working)
    return DrawnStep(
        columns=columns,
        cluster=cluster,
        rank=np.arange(cluster.num_working),
        speed=ones,
        factor=ones,
        jitter=None,
    )


def cluster_of(columns: Columns) -> OneCluster:
    """The one point, whether its stages have to be simulated or all do the same."""
    fleet = fleet_of(columns)
    if fleet.pipeline is not None:
        return clusters_of(fleet)[0]
    shape = shape_of(columns, np.full(1, -np.inf))
    return OneCluster(
        fleet=fleet,
        shape=shape,
        num_held=int(num_used(columns)[0]),
        num_removed=0,
        num_replicas=int(num_replicas(columns)[0]),
        tensor_size=int(columns["tensor_parallel_size"][0]),
        num_backup=int(num_backup(columns)[0]),
        slow_groups=(),
    )


def without_slowest(lasting: Floats, num_removed: int) -> NDArray[np.intp]:
    """The ranks without those slowest in what lasts; of equal ones the last stand by."""
    if num_removed == 0:
        return np.arange(len(lasting))
    order = np.lexsort((np.arange(len(lasting)), lasting))
    return np.sort(order[: len(lasting) - num_removed])


def _in_places(working: NDArray[np.intp]) -> NDArray[np.intp]:
    """The ranks by their places: the last ones take those of ranks that stand by, others stay."""
    number = len(working)
    stay, stand_in = working[working < number], working[working >= number]
    places = np.arange(number)
    places[np.setdiff1d(places, stay, assume_unique=True)] = stand_in
    return places


def _speeds(cluster: OneCluster) -> Floats:
    """(GPUs held,) as fractions of nominal."""
    places = fixed_places(cluster)
    factor = np.ones(cluster.num_held)
    factor[: places.factor.size] = places.factor.ravel()
    free = np.ones(cluster.num_held, dtype=np.bool_)
    free[: places.is_free.size] = places.is_free.ravel()
    slow = np.repeat(
        [group.factor for group in cluster.random_groups],
        [group.number for group in cluster.random_groups],
    )
    factor[np.flatnonzero(free)[: len(slow)]] = slow
    speed: Floats = 1 / factor
    return speed


def _jitter(scenario: Scenario, cluster: OneCluster) -> DrawnJitter | None:
    pipeline = scenario.pipeline
    if pipeline is None or pipeline.per_op_jitter is None or cluster.shape.jitter is None:
        return None
    return DrawnJitter(pipeline.per_op_jitter, scenario.seed, cluster.plan)
