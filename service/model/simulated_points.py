"""Which points take a recursion over drawn steps, and how long it will be."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from service.model.active import is_active, spikes_are_active
from service.model.causes import CAUSES, without_cause
from service.model.columns import Columns, Floats
from service.model.fleet import Fleet
from service.model.fleets import structures_of
from service.model.pipeline.simulation_size import (
    operations_needed,
    placement_operations,
    replica_operations,
)
from service.model.pipeline.spread_size import spread_operations
from service.model.pipelines import are_stages_simulated
from service.model.recursion.lengths import rank_steps_needed
from service.model.recursion.pattern import Pattern
from service.model.waiting import Mask, needs_recursion

PER_STEP = ("transient", "replica", "common")
FLEETING = (*PER_STEP, "spikes", "episodes")
MAX_OPERATIONS = 3e9
"""Of pipelines, to be worked through for one point and one expectation."""
OPERATIONS_PER_RANK_STEP = 10.0
"""Operations of pipelines that are worked through while one GPU's step is simulated."""


def is_simulated(columns: Columns) -> Mask:
    """(points,) whether steps, or operations of pipelines, are worked through one by one."""
    varies = spikes_are_active(columns)
    for source in PER_STEP:
        varies = varies | is_active(columns, source)
    simulated: Mask = (varies & needs_recursion(columns)) | are_stages_simulated(columns)
    return simulated


def rank_steps(columns: Columns, *, with_causes: bool = True, with_spread: bool = True) -> Floats:
    """(points,) steps of single GPUs to draw; 0 where nothing is simulated.

    All points must keep the rules. A point is simulated once as it is, and, for its causes, once
    without each that leaves another in it that varies from step to step. The spread of clusters of
    pipelines is counted beside the causes, unless nobody asks for it.
    """
    found = np.zeros(columns.num_points)
    rows = np.flatnonzero(is_simulated(columns) & ~are_stages_simulated(columns))
    if len(rows):
        for structure in structures_of(columns.part(rows)):
            draws = structure.columns["draws"]
            found[rows[structure.rows]] = sum(
                rank_steps_needed(fleet, cast("Pattern", fleet.pattern), draws)
                for fleet in (_simulated(structure.fleet) if with_causes else [structure.fleet])
            )
    worked_through = operations(columns, with_causes=with_causes, with_spread=with_spread)
    found += worked_through / OPERATIONS_PER_RANK_STEP
    return found


def operations(columns: Columns, *, with_causes: bool = True, with_spread: bool = True) -> Floats:
    """(points,) operations of pipelines to work through; 0 where none are simulated.

    All points must keep the rules. A replica by itself is worked through as often as the causes are
    switched off; beside the causes the spread over clusters is counted, what single replicas take,
    and the search for the worst places of slow GPUs, which is kept.
    """
    found = np.zeros(columns.num_points)
    rows = np.flatnonzero(are_stages_simulated(columns))
    if len(rows):
        for structure in structures_of(columns.part(rows)):
            draws = structure.columns["draws"]
            found[rows[structure.rows]] = sum(
                operations_needed(fleet, draws)
                for fleet in (_piped(structure.fleet) if with_causes else [structure.fleet])
            )
            if with_causes:
                found[rows[structure.rows]] += replica_operations(structure.fleet, draws)
                found[rows[structure.rows]] += placement_operations(structure.fleet)
            if with_causes and with_spread:
                found[rows[structure.rows]] += spread_operations(structure.fleet, draws)
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


def _piped(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, and without one cause after the other but the last."""
    yield fleet
    for cause in CAUSES[:-1]:
        rest = without_cause(fleet, cause)
        if rest is not None:
            fleet = rest
            yield fleet
