"""What the points of a grid cost: clusters that are drawn, and estimated seconds of one core."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.model.active import SOURCES, is_active, occupancy, spikes_are_active
from service.model.columns import Columns, Floats
from service.model.grid import Grid
from service.model.parts.synchronization import BackupWorkers, EveryStep
from service.model.plan_lengths import plan_steps
from service.model.rules import failures
from service.model.simulated_points import is_simulated, rank_steps
from service.model.stage_sizes import has_pipeline

SPAN_POINTS = 50_000
# Measured on one core: a point by formula or with one source of variability; one with several,
# integrated; and one whose spread is sampled, for each draw.
PLAIN_S = 1 / 50_000
SEVERAL_S = 1 / 400
SAMPLED_S_PER_DRAW = 1 / 120_000
PLAN_STEP_S = 4e-4
"""Of a pipeline that is worked through once, whatever is drawn of it besides."""
MOVED = ("synchronization", "pipeline")
RANK_STEPS_PER_DRAW = 125.0
"""Steps of single GPUs that are simulated while one cluster is drawn."""


class Work(Struct, frozen=True, kw_only=True):
    """Of one grid: how many clusters are drawn, and the estimated seconds of one core.

    Simulated steps count as draws that take equally long.
    """

    num_points: int
    draws: int
    core_s: float


def work_of(grid: Grid) -> Work:
    """The work of a grid, by what varies at each of its points."""
    if not (_may_have_several(grid) or _may_be_simulated(grid)):
        return Work(num_points=grid.num_points, draws=0, core_s=grid.num_points * PLAIN_S)
    draws, core_s = 0, grid.num_points * PLAIN_S
    for start in range(0, grid.num_points, SPAN_POINTS):
        columns = grid.columns(start, min(start + SPAN_POINTS, grid.num_points))
        of_points = np.where(is_sampled(columns), columns["draws"], 0)
        rank_steps_of_points, steps_of_plans = _simulated(columns)
        simulated = np.ceil(rank_steps_of_points / RANK_STEPS_PER_DRAW)
        draws += int(of_points.sum() + simulated.sum())
        core_s += SEVERAL_S * int(np.count_nonzero(_num_sources(columns) > 1))
        core_s += PLAN_STEP_S * steps_of_plans
    return Work(num_points=grid.num_points, draws=draws, core_s=core_s + SAMPLED_S_PER_DRAW * draws)


def is_sampled(columns: Columns) -> NDArray[np.bool_]:
    """(points,) whether the spread of a point has no formula: clusters differ, and so do steps."""
    lasting = is_active(columns, "persistent") | is_active(columns, "node")
    by_step = is_active(columns, "transient") | is_active(columns, "replica")
    sampled: NDArray[np.bool_] = lasting & (by_step | spikes_are_active(columns))
    return sampled


def _num_sources(columns: Columns) -> NDArray[np.int64]:
    """(points,) how many sources of variability matter."""
    active = [is_active(columns, source) for source in SOURCES]
    active += [spikes_are_active(columns), occupancy(columns) > 0]
    number: NDArray[np.int64] = np.sum(active, axis=0)
    return number


def _simulated(columns: Columns) -> tuple[Floats, float]:
    """(points,) steps of single GPUs, and steps of all plans; 0 where a rule is broken."""
    found = np.zeros(columns.num_points)
    rows = np.flatnonzero(is_simulated(columns) | has_pipeline(columns))
    rows = rows[failures(columns.part(rows)) == 0]
    sound = columns.part(rows)
    found[rows] = rank_steps(sound)
    return found, float(plan_steps(sound).sum())


def _may_be_simulated(grid: Grid) -> bool:
    """Whether GPUs may not wait for all in every step, or be in stages; asks no point."""
    waits = isinstance(grid.base.synchronization, EveryStep | BackupWorkers)
    piped = grid.base.pipeline is not None
    return not waits or piped or any(path.startswith(MOVED) for path in grid.axis_paths)


def _may_have_several(grid: Grid) -> bool:
    """Whether more than one source is in the scenario or on an axis; asks no point."""
    variability = grid.base.variability
    there = {
        name
        for name in variability.__struct_fields__
        if name != "autocorrelation" and getattr(variability, name) is not None
    }
    for path in grid.axis_paths:
        if path == "variability":
            return True
        if path.startswith("variability."):
            there.add(path.split(".")[1])
    return len(there - {"autocorrelation"}) > 1
