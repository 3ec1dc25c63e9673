"""Standard errors of output columns, and columns without the sampling that nobody asks for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.active import is_active, num_removed
from service.model.answer_parts import PART_COLUMNS
from service.model.columns import Columns, Floats
from service.model.plan_lengths import plan_steps
from service.model.problems import InvalidScenario, Problem
from service.model.rules import failures
from service.model.simulated_points import is_simulated, rank_steps
from service.model.stage_sizes import has_pipeline

FEWEST_DRAWS = 16
MOST_DRAWS = 20_000
"""Of each of some hundred points that are answered at once."""
MOST_RANK_STEPS = 3e8
"""Of all points of an answer at once that are simulated step by step: some 20 s of one core."""
MOST_PLAN_STEPS = 30_000
"""Of all pipelines of an answer at once, each worked through once: likewise. What is needed of both
counts together."""
_STATISTICS = {"p10": "p90", "p50": "p50", "p90": "p10"}
_WITH_THE_STEP = (
    "step_mean_ms",
    "useful_compute_fraction",
    "days_to_finish",
    "gpu_hours_for_total_steps",
    "gpu_hours_per_1000_steps",
)
"""Proportional to the expected step, or to its reciprocal."""


def standard_error(name: str, found: Mapping[str, NDArray[Any]]) -> Floats:
    """(points,) of the output column `name`; 0 where it is exact, NaN where none is known."""
    if f"{name}_se" in found:
        return np.asarray(found[f"{name}_se"], dtype=np.float64)
    factor, of = _scaled(name, found)
    return np.asarray(factor * found[f"gpu_hours_lost{of}_se"], dtype=np.float64)


def _scaled(name: str, found: Mapping[str, NDArray[Any]]) -> tuple[Floats, str]:
    """The column's error over that of a statistic of the loss: of its mean, or of a quantile."""
    available = found["gpu_hours_available"]
    # The loss is available - available x efficiency: relative errors of the step are those of this.
    relative = 1 / (available * found["efficiency_fraction"])
    above, _, statistic = name.rpartition("_")
    if above == "efficiency_fraction":
        return 1 / available, f"_{_STATISTICS[statistic]}"
    if name == "efficiency_fraction":
        return 1 / available, ""
    if name == "gpu_hours_lost_per_day":
        return found["gpu_hours_available_per_day"] / available, ""
    if name in _WITH_THE_STEP:
        return relative * found[name], ""
    if name == "slowest_compute_mean_ms":
        return relative * found["step_mean_ms"], ""
    return np.where(found["gpu_hours_lost_se"] > 0, np.nan, 0.0), ""


def without_spread(columns: Columns, name: str) -> Columns:
    """Columns that give the output column `name` with as few draws as it needs.

    Only a spread is sampled, what slow GPUs that stand by leave, and steps that only a recursion
    tells.
    """
    if name in PART_COLUMNS["spread"]:
        return columns
    lasting = is_active(columns, "persistent") | is_active(columns, "node")
    stands_by = lasting & (num_removed(columns) > 0)
    needed = stands_by | is_simulated(columns)
    draws = np.where(needed, columns["draws"], FEWEST_DRAWS)
    return replace(columns, values={**columns.values, "draws": draws})


def is_sampled(columns: Columns) -> bool:
    """Whether columns of `without_spread` still ask for more than the fewest draws.

    Raises InvalidScenario where that would take too long for an answer at once.
    """
    draws = int(columns["draws"].max())
    if draws > MOST_DRAWS:
        detail = f"{draws} draws of each of many points take too long, at most {MOST_DRAWS} do not"
        raise InvalidScenario([Problem(pointer="/draws", code="too_many_draws", detail=detail)])
    return draws > FEWEST_DRAWS


def refuse_long_recursions(columns: Columns, times: float = 1.0) -> None:
    """Raise InvalidScenario where the points that keep the rules take too long to simulate.

    They are simulated `times` over. Pipelines too large to be worked through in time are refused.
    """
    if not (has_pipeline(columns) | is_simulated(columns)).any():
        return
    sound = columns.part(np.flatnonzero(failures(columns) == 0))
    plans = float(plan_steps(sound).sum()) * times
    needed = float(rank_steps(sound).sum()) * times
    of_plans, of_ranks = plans / MOST_PLAN_STEPS, needed / MOST_RANK_STEPS
    if of_plans + of_ranks <= 1:
        return
    if of_plans > of_ranks:
        raise _too_long("/pipeline", _of_plans(plans))
    raise _too_long("/draws", _of_ranks(needed, int(columns["draws"].max())))


def _of_plans(needed: float) -> str:
    return (
        f"the pipelines to be worked through have {needed:.0f} steps, at most {MOST_PLAN_STEPS} "
        "are answered at once, fewer where operations are drawn besides: ask with fewer "
        "micro-batches or chunks, or fewer of them at a time"
    )


def _of_ranks(needed: float, draws: int) -> str:
    fewer = f"fewer draws than {draws}, " if draws > FEWEST_DRAWS else ""
    return (
        f"{needed:.1e} steps of single GPUs would be simulated, at most {MOST_RANK_STEPS:.0e} are "
        f"answered at once, fewer where pipelines are long: ask with {fewer}fewer GPUs or "
        "micro-batches, fewer sources of variability, or narrower bounds"
    )


def _too_long(pointer: str, detail: str) -> InvalidScenario:
    return InvalidScenario([Problem(pointer=pointer, code="too_long_at_once", detail=detail)])
