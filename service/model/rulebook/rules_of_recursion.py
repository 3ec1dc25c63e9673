"""The rule about simulations that would take too long; it holds of points that break no other."""

import numpy as np

from service.model.columns import Columns, Floats, columns_of
from service.model.fields import Scenario
from service.model.fleets import structures_of
from service.model.recursion.lengths import MAX_RANK_STEPS, rank_steps_needed
from service.model.rulebook.rule import Mask, Rule
from service.model.waiting import needs_recursion


def steps_to_simulate(columns: Columns) -> Floats:
    """(points,) steps of single GPUs that a recursion would draw; 0 where none is needed.

    Of points that break no rule.
    """
    found = np.zeros(columns.num_points)
    rows = np.flatnonzero(needs_recursion(columns))
    if not len(rows):
        return found
    for structure in structures_of(columns.part(rows)):
        fleet, pattern = structure.fleet, structure.fleet.pattern
        if fleet.is_simulated and pattern is not None:
            draws = structure.columns["draws"]
            found[rows[structure.rows]] = rank_steps_needed(fleet, pattern, draws)
    return found


def _too_long(columns: Columns) -> Mask:
    broken: Mask = steps_to_simulate(columns) > MAX_RANK_STEPS
    return broken


def _say_too_long(scenario: Scenario) -> tuple[str, str]:
    needed = float(steps_to_simulate(columns_of(scenario))[0])
    return (
        "/synchronization",
        (
            f"who waits for whom has no formula here, and a simulation of {needed:.2g} steps of "
            f"single GPUs takes too long: at most {MAX_RANK_STEPS:.2g}. Fewer GPUs, draws or steps "
            "between exchanges would do"
        ),
    )


TOO_MANY_RANK_STEPS = Rule("too_many_rank_steps", _too_long, _say_too_long)
