"""Which points take a recursion over drawn steps, and how long it will be."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from service.model.active import is_active, spikes_are_active
from service.model.causes import CAUSES
from service.model.columns import Columns, Floats
from service.model.fleet import Fleet
from service.model.fleets import structures_of
from service.model.recursion.lengths import rank_steps_needed
from service.model.recursion.pattern import Pattern
from service.model.waiting import Mask, needs_recursion

PER_STEP = ("transient", "replica", "common")
FLEETING = (*PER_STEP, "spikes", "episodes")


def is_simulated(columns: Columns) -> Mask:
    """(points,) whether only a recursion over drawn steps tells how long they take."""
    varies = spikes_are_active(columns)
    for source in PER_STEP:
        varies = varies | is_active(columns, source)
    simulated: Mask = varies & needs_recursion(columns)
    return simulated


def rank_steps(columns: Columns, *, with_causes: bool = True) -> Floats:
    """(points,) steps of single GPUs to draw; 0 where nothing is simulated.

    All points must keep the rules. A point is simulated once as it is, and, for its causes, once
    without each that leaves another in it that varies from step to step.
    """
    found = np.zeros(columns.num_points)
    rows = np.flatnonzero(is_simulated(columns))
    if len(rows):
        for structure in structures_of(columns.part(rows)):
            draws = structure.columns["draws"]
            found[rows[structure.rows]] = sum(
                rank_steps_needed(fleet, cast("Pattern", fleet.pattern), draws)
                for fleet in (_simulated(structure.fleet) if with_causes else [structure.fleet])
            )
    return found


def _simulated(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, and without one cause after the other while it is still simulated."""
    yield fleet
    for cause in (cause for cause in CAUSES if cause in FLEETING):
        if getattr(fleet, cause) is not None:
            nothing: dict[str, Any] = {cause: None}
            fleet = replace(fleet, **nothing)
            if fleet.is_simulated:
                yield fleet
