"""When operations end: end = max(end of the previous one, end of the input + p2p) + time.

Every lane (a draw, a point) has its own times; all lanes go through the plan together, level by
level, in blocks that fit into the cache.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.plan import Plan
from service.model.pipeline.program import program_of
from service.model.pipeline.tables import Lanes, evaluated
from service.model.pipeline.times import row_times


class Ends(NamedTuple):
    """(operations, lanes) ms from the start of the pass, in the order of the plan."""

    starts: Floats
    ends: Floats


def makespans(
    plan: Plan,
    forward: Floats,
    backward: Floats,
    *,
    weight_fraction: Floats,
    p2p: Floats,
    factor: Floats | None = None,
    jitter: Floats | None = None,
) -> Floats:
    """(lanes,) ms from the first start to the last end.

    forward, backward   (stages, lanes) ms of a micro-batch in a stage, all its chunks
    weight_fraction     (lanes,) share of the backward that is the weight gradient
    p2p                 (lanes,) ms from rank to rank
    factor              (stages, lanes) of all operations of a rank
    jitter              (operations, lanes) of single operations, in the order of the plan
    The last axis may be 1 instead of lanes.
    """
    return evaluated(plan, Lanes(forward, backward, weight_fraction, p2p, factor, jitter))


def ends(
    plan: Plan,
    forward: Floats,
    backward: Floats,
    *,
    weight_fraction: Floats,
    p2p: Floats,
    factor: Floats | None = None,
    jitter: Floats | None = None,
) -> Ends:
    """Every start and end, for pictures: arguments as of `makespans`."""
    lanes = Lanes(forward, backward, weight_fraction, p2p, factor, jitter)
    rows = program_of(plan).base_times
    times = row_times(rows, forward, backward, weight_fraction, factor)[rows.row]
    if jitter is not None:
        times = times * jitter
    times = np.broadcast_to(times, (plan.num_operations, lanes.number()))
    # two rows more: index -1 is the start of the pass, index -2 never keeps anybody waiting
    found = np.zeros((plan.num_operations + 2, lanes.number()))
    found[-2] = -np.inf
    upstream, second = (
        np.where(inputs < 0, -2, inputs) for inputs in (plan.upstream, plan.second_upstream)
    )
    started = np.empty(times.shape)
    bounds = plan.level_starts.tolist()
    for lowest, highest in pairwise(bounds):
        own = slice(lowest, highest)
        arrived = np.maximum(found[upstream[own]], found[second[own]]) + p2p
        started[own] = np.maximum(found[plan.previous[own]], arrived)
        found[own] = started[own] + times[own]
    return Ends(started, found[:-2])


def busy_ms(
    plan: Plan,
    forward: Floats,
    backward: Floats,
    *,
    weight_fraction: Floats,
    factor: Floats | None = None,
) -> Floats:
    """(stages, lanes) ms that each rank works in a pass, without jitter: M (f + b) x factor.

    For dualpipe, M/2 of each of the two parts of the model that a rank holds.
    """
    rows = program_of(plan).base_times
    times = row_times(rows, forward, backward, weight_fraction, factor)
    times = times * rows.count[:, np.newaxis]
    busy = np.zeros((plan.stages, times.shape[1]))
    np.add.at(busy, rows.stage, times)
    return busy
