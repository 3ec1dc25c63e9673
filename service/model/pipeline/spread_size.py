"""How much work the spread over clusters is, before anything is drawn or compiled."""

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import alike_part, fleeting_part, lasting_part
from service.model.pipeline.cluster_spread import differs, varies
from service.model.pipeline.episode_spread import has_known_episodes
from service.model.pipeline.mixed_spread import CLUSTERS_PER_DRAWN, NUM_INNER, num_drawn_lanes
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.simulate import num_lanes_of
from service.model.pipeline.simulation_size import (
    operations_drawn,
    operations_known,
    operations_of,
)


def spread_operations(fleet: Fleet, draws: NDArray[np.int64]) -> Floats:
    """(points,) operations that `spread_of_pipelines` evaluates at most; see `simulation_size`."""
    found = [
        _of_unequal(cluster, int(number)) if differs(cluster) else _of_equal(cluster, int(number))
        for cluster, number in zip(clusters_of(fleet), draws, strict=True)
    ]
    return np.array(found)


def _of_unequal(cluster: OneCluster, draws: int) -> float:
    has_episodes = cluster.fleet.episodes is not None
    if has_episodes and not has_known_episodes(cluster):
        return 0.0
    if not has_episodes and not varies(cluster):
        return operations_of(cluster, LANE * num_lanes_of(draws))
    drawn = LANE * num_drawn_lanes(draws)
    alike = alike_part(cluster)
    inner = [cluster, fleeting_part(cluster), *([alike] if has_episodes else [])]
    of_steps = sum(operations_drawn(part, drawn * NUM_INNER) for part in inner)
    of_steps += operations_known(alike, drawn * NUM_INNER)
    # What lasts is drawn once for its steps and once for its soft maxima.
    return of_steps + 2 * operations_drawn(lasting_part(cluster), drawn * CLUSTERS_PER_DRAWN)


def _of_equal(cluster: OneCluster, draws: int) -> float:
    whole = operations_of(cluster, LANE * num_lanes_of(draws))
    if cluster.fleet.episodes is None:
        return whole
    if not has_known_episodes(cluster):
        return 0.0
    return whole + operations_of(fleeting_part(cluster), LANE * num_lanes_of(draws))
