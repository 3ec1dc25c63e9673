"""Which points take a recursion over drawn steps, and how long it will be."""

from typing import cast

import numpy as np

from service.model.active import is_active, occupancy, spikes_are_active
from service.model.columns import Columns, Floats
from service.model.fleets import structures_of
from service.model.recursion.lengths import rank_steps_needed
from service.model.recursion.pattern import Pattern
from service.model.waiting import Mask, needs_recursion

PER_STEP = ("transient", "replica", "common")


def is_simulated(columns: Columns) -> Mask:
    """(points,) whether only a recursion over drawn steps tells how long they take."""
    varies = spikes_are_active(columns)
    for source in PER_STEP:
        varies = varies | is_active(columns, source)
    simulated: Mask = varies & needs_recursion(columns)
    return simulated


def rank_steps(columns: Columns) -> Floats:
    """(points,) steps of single GPUs to draw; 0 where nothing is simulated.

    All points must keep the rules. A point is simulated once as it is, and once for each cause of
    its loss that leaves another in it that varies from step to step.
    """
    found = np.zeros(columns.num_points)
    rows = np.flatnonzero(is_simulated(columns))
    if not len(rows):
        return found
    part = columns.part(rows)
    for structure in structures_of(part):
        pattern = cast("Pattern", structure.fleet.pattern)
        draws = structure.columns["draws"]
        found[rows[structure.rows]] = rank_steps_needed(structure.fleet, pattern, draws)
    found[rows] *= _num_runs(part)
    return found


def _num_runs(columns: Columns) -> Floats:
    sources = [is_active(columns, source) for source in PER_STEP]
    sources += [spikes_are_active(columns), occupancy(columns) > 0]
    number: Floats = np.sum(sources, axis=0).astype(np.float64)
    return number
