"""The longest chain of a pass: its length, and how often it crosses from rank to rank."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.plan import Plan
from service.model.pipeline.program import program_of
from service.model.pipeline.times import row_times

_BLOCK_VALUES = 1_000_000


class Chains(NamedTuple):
    """(lanes,) makespan in ms and crossings of a chain of operations that is that long."""

    makespan: Floats
    crossings: Floats


def longest_chains(
    plan: Plan, forward: Floats, backward: Floats, *, weight_fraction: Floats, p2p: Floats
) -> Chains:
    """Arguments as of `engine.makespans`, with as many lanes in all of them."""
    number = p2p.shape[-1]
    found = Chains(np.empty(number), np.empty(number))
    size = max(1, _BLOCK_VALUES // plan.num_operations)
    rows = program_of(plan).base_times
    for start in range(0, number, size):
        block = slice(start, start + size)
        times = row_times(rows, forward[:, block], backward[:, block], weight_fraction[block])
        chains = _chains(plan, times[rows.row], p2p[block])
        found.makespan[block], found.crossings[block] = chains
    return found


def _chains(plan: Plan, times: Floats, p2p: Floats) -> Chains:
    """Of one block: a chain crosses where an operation waits for its input last."""
    # two rows more: index -1 is the start of the pass, index -2 never keeps anybody waiting
    end = np.zeros((plan.num_operations + 2, len(p2p)))
    crossings = np.zeros_like(end)
    end[-2] = -np.inf
    inputs = [
        np.where(upstream < 0, plan.num_operations, upstream)
        for upstream in (plan.upstream, plan.second_upstream)
    ]
    for lowest, highest in pairwise(plan.level_starts.tolist()):
        own = slice(lowest, highest)
        start, crossed = end[plan.previous[own]], crossings[plan.previous[own]]
        for source in inputs:
            arrival = end[source[own]] + p2p
            is_later = arrival > start
            np.maximum(start, arrival, out=start)
            np.copyto(crossed, crossings[source[own]] + 1, where=is_later)
        end[own] = start + times[own]
        crossings[own] = crossed
    last = end[:-2].argmax(axis=0)[np.newaxis]
    return Chains(*(np.take_along_axis(part, last, axis=0)[0] for part in (end, crossings)))
