"""What follows from the random numbers of a cluster's steps, whatever lasts in it.

The same numbers are put into a cluster whose GPUs are alike, and what that explains is taken out of
the steps (control variates). Its expectation is the same in all clusters: known for the factor of
all GPUs and for GPUs that are only slow or not (`known_parts.py`), else estimated by the mean.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.known_parts import known_parts
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.replica_states import is_exact
from service.model.pipeline.rounds import Rounds, repeated_rounds

Measure = Callable[[Floats], Floats]

_VARIES = 1e-20
_UNTRIED = 0.1
"""Of what something rare adds: the error of its acting together with the rest."""


class Luckless(NamedTuple):
    """What is averaged of a step, without what luck explains of it.

    values     (rounds, draws)
    expected   (draws,) of what was taken out: their mean is to be added
    error      of the mean, from what is known and too rare to have been tried
    """

    values: Floats
    expected: Floats
    error: float


def without_luck(rounds: Rounds, alike: OneCluster, seed: int, measure: Measure) -> Luckless:
    """`alike` is the cluster without what lasts, `measure` what is averaged of a step."""
    number, num_lanes = len(rounds.step), rounds.num_lanes
    known = []
    for part in known_parts(alike):
        placements = placements_of(part)
        drawn = measure(repeated_rounds(part, seed, num_lanes, number).step)
        known.append(drawn - placements.step_probability @ measure(placements.step))
    controls = [rounds.common - 1, *known]
    values = _steadied(measure(rounds.step), controls)
    error = float(np.hypot.reduce([0.0, *(_untried(control) for control in known)]))
    if is_exact(alike):
        return Luckless(values, np.zeros(values.shape[1]), error)
    luck = _steadied(measure(repeated_rounds(alike, seed, num_lanes, number).step), controls)
    slope = _slope(values, luck)
    return Luckless(values - slope * luck, slope * luck.mean(axis=0), error)


def _steadied(values: Floats, controls: Sequence[Floats]) -> Floats:
    """Without what follows from controls of expectation 0, one after the other."""
    for control in controls:
        values = values - _slope(values, control) * control
    return values


def _slope(values: Floats, control: Floats) -> float:
    """Of values by a control, both (rounds, draws), within clusters.

    1 where the control never varied: what is known of something so rare adds up.
    """
    inside, around = values - values.mean(axis=0), control - control.mean(axis=0)
    square = float(np.vdot(around, around))
    return float(np.vdot(around, inside)) / square if square > _VARIES else 1.0


def _untried(control: Floats) -> float:
    """Error of what is known, and so rare that few values, or none, have it."""
    seen = int(np.count_nonzero(np.abs(control - np.median(control)) > _VARIES**0.5))
    return float(_UNTRIED * abs(control.mean()) / max(seen, 1) ** 0.5)
