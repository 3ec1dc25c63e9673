"""Points with episodes as points without: one for each state that lasts for hours.

GPUs in an episode are further classes, `severity` times as slow.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.slowest.episodes import states_of
from service.model.slowest.removal import without_removed

# States of less weight are left out: together they last a few seconds a year.
_TRIFLE = 1e-7


class PointStates(NamedTuple):
    """The fleet without episodes, a point for each state.

    point, weight   of which given point it is a state, and for what share of the time
    """

    fleet: Fleet
    point: NDArray[np.intp]
    weight: Floats


def states_of_points(fleet: Fleet) -> PointStates:
    """All states that matter; the weights of a point's sum up to 1.

    Who stands by does so for what lasts: episodes fall on those who work. Where chance tells who
    that is, the scenario is refused.
    """
    if fleet.episodes is not None and fleet.persistent is None and fleet.node is None:
        fleet = replace(without_removed(fleet), num_removed=np.zeros_like(fleet.num_removed))
    if fleet.episodes is None:
        every = np.arange(fleet.num_points)
        return PointStates(fleet, every, np.ones(fleet.num_points))
    states = states_of(fleet.num_gpus, fleet.episodes)
    point, state = np.nonzero(states.weight.T > _TRIFLE)
    weight = states.weight[state, point]
    weight = weight / np.bincount(point, weight)[point]
    expanded = replace(
        fleet.part(point),
        num_gpus=states.num_gpus[state, :, point].T,
        mean=np.concatenate([fleet.mean, fleet.mean * fleet.episodes.severity])[:, point],
        episodes=None,
    )
    return PointStates(expanded, point, weight)
