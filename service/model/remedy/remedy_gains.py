"""What remedies give back: differences of whole evaluations at the same worth of a step.

Of the GPU-hours held over the window, effective are those that the steps done would take at the
ORIGINAL ideal step; the others are lost. A remedy gives back lost_before - lost_after, so that hot
spares and backup workers are paid from what they save, and evicted GPUs are no longer held.

A step is worth the original ideal step of every GPU that contributes to it; under strong scaling,
where a step is the same work whatever the size, that of all GPUs of the original job.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.fields import Scenario
from service.model.kernel import Results, evaluate
from service.model.remedy.remedy_grid import RemedyGrid
from service.model.remedy.remedy_kinds import COUNTED, Remedy
from service.model.remedy.remedy_overrides import num_slow
from service.model.results import REMEDIES
from service.model.stage_sizes import STRONG
from service.model.times import num_used


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """(points,) each; point 0, the scenario as it is, has gains of 0.

    given_back, given_back_se        GPU-hours over the window, and their standard error
    held_change, effective_change    GPU-hours over the window
    efficiency                       effective over held
    saved                            GPU-hours that the same work as before would no longer hold: at
                                     most what was held, however much faster steps become
    """

    given_back: Floats
    given_back_se: Floats
    held_change: Floats
    effective_change: Floats
    efficiency: Floats
    saved: Floats


def gains_of(columns: Columns, results: Results) -> Gains:
    """What each point gives back against point 0.

    The standard error of a difference of two sampled losses is bounded from above by that of
    independent samples: seed and draws are shared, so that the errors fall together.
    """
    found = results.columns
    held, lost = found["gpu_hours_available"], found["gpu_hours_lost"]
    worth = _worth(columns, found["ideal_step_ms"])
    # Where the worth is the same the loss itself is compared: it keeps its digits.
    lost = np.where(worth == 1, lost, held - (held - lost) * worth)
    error = found["gpu_hours_lost_se"] * worth
    given_back = lost[0] - lost
    held_change = held - held[0]
    error_of_difference = np.hypot(error, error[0])
    error_of_difference[0] = 0.0
    return Gains(
        given_back=given_back,
        given_back_se=error_of_difference,
        held_change=held_change,
        effective_change=given_back + held_change,
        efficiency=1 - lost / held,
        saved=held[0] - held * ((held[0] - lost[0]) / (held - lost)),
    )


def _worth(columns: Columns, ideal: Floats) -> Floats:
    """(points,) worth of a GPU's step, in its own ideal steps."""
    worth: Floats = ideal[0] / ideal
    strong = columns["scaling.kind"] == STRONG
    return np.where(strong, worth * num_used(columns)[0] / num_used(columns), worth)


def num_units(scenario: Scenario, remedy: Remedy) -> int:
    """Of what the remedy is made: GPUs, or 1 for a measure that is taken once."""
    if remedy.kind in COUNTED:
        return remedy.count or 1
    return num_slow(scenario) if remedy.kind == "replace_slow_gpus" else 1


def evaluated(grid: RemedyGrid, *, with_spread: bool = True) -> tuple[Results, Gains]:
    """All points of the grid, the columns of remedies included, and what the remedies give back.

    What is given back is a matter of expectations: without the spread it is the same.
    """
    columns = grid.columns(0, grid.num_points)
    results = evaluate(columns, with_spread=with_spread)
    gains = gains_of(columns, results)
    results.columns.update(_gain_columns(grid, gains))
    return results, gains


def _gain_columns(grid: RemedyGrid, gains: Gains) -> dict[str, NDArray[Any]]:
    """The output columns that ordinary points leave null, (points,) each."""
    remedies = [change.remedy for change in grid.changes]
    codes = [REMEDIES.index(remedy.kind) for remedy in remedies]
    units = [float(num_units(grid.base, remedy)) for remedy in remedies]
    given_back = gains.given_back.copy()
    given_back[0] = np.nan
    return {
        "remedy": np.array([-1, *codes], dtype=np.int8),
        "remedy_count": np.array([np.nan, *units]),
        "gpu_hours_given_back": given_back,
    }
