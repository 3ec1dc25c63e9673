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
# Measured likewise at 16 to 131 072 GPUs, 1 000 and 8 000 draws: what a spread takes more, for each
# draw, where every random cluster is integrated by itself, as two lasting sources beside steps that
# vary, or one beside spikes or episodes only; both together, with episodes, take more before the
# first draw. Episodes of GPUs in nodes of one factor take long even without a spread.
TWO_LASTING_S_PER_DRAW = 3e-5
RARE_S_PER_DRAW = 4e-5
RARE_S = 0.03
TWO_AND_EPISODES_S = 0.1
NODE_EPISODES_S, NODE_EPISODES_OF_MANY_S, FEW_NODES_GPUS = 0.3, 0.06, 512
PLAN_STEP_S = 4e-4
"""Of a pipeline that is worked through once, whatever is drawn of it besides."""
FEW_GPUS = 64
STEP_OF_MANY = 0.37
"""Of many GPUs a step of each takes so much of the time of one of few (staleness, delayed updates:
0.4 s of 0.35 s estimated at 8, 1.5 s of 3.9 s at 512, 12 s of 34 s at 131 072)."""
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


def work_of(grid: Grid, *, with_spread: bool = True) -> Work:
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
        core_s += float(_by_formula_s(columns, with_spread=with_spread).sum())
        core_s += float(_simulated_s(columns, rank_steps_of_points, steps_of_plans).sum())
    return Work(num_points=grid.num_points, draws=draws, core_s=core_s)


def seconds_of(columns: Columns, *, with_spread: bool, with_causes: bool = False) -> Floats:
    """(points,) of one core, estimated, without quantiles of steps."""
    steps, plans = _simulated(columns, with_causes=with_causes, with_spread=with_spread)
    found = PLAIN_S + _by_formula_s(columns, with_spread=with_spread)
    return found + _simulated_s(columns, steps, plans)


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


def _by_formula_s(columns: Columns, *, with_spread: bool) -> Floats:
    """(points,) seconds for several sources, and for the spread; of what is not simulated."""
    num_sources = _num_sources(columns)
    found = np.where(num_sources > 1, SEVERAL_S, 0.0)
    node = is_active(columns, "node")
    two = node & is_active(columns, "persistent")
    by_step = is_active(columns, "transient") | is_active(columns, "replica")
    episodes = occupancy(columns) > 0
    few = columns["num_gpus"] <= FEW_NODES_GPUS
    of_nodes = np.where(few, NODE_EPISODES_S, NODE_EPISODES_OF_MANY_S)
    is_plain = ~(is_simulated(columns) | has_pipeline(columns))
    found += np.where(is_plain & node & episodes, of_nodes, 0.0)
    if not with_spread:
        return found
    found += np.where(is_sampled(columns), SAMPLED_S_PER_DRAW * columns["draws"], 0.0)
    lasting = node | is_active(columns, "persistent")
    rare = is_plain & lasting & (episodes | spikes_are_active(columns)) & (two | ~by_step)
    found += np.where(rare, RARE_S + RARE_S_PER_DRAW * columns["draws"], 0.0)
    found += np.where(is_plain & two & by_step, TWO_LASTING_S_PER_DRAW * columns["draws"], 0.0)
    spread_s: Floats = found + np.where(is_plain & two & episodes, TWO_AND_EPISODES_S, 0.0)
    return spread_s


def _simulated_s(columns: Columns, steps: Floats, plans: Floats) -> Floats:
    """(points,) seconds for steps of single GPUs and those of plans."""
    of_many = STEP_OF_MANY + (1 - STEP_OF_MANY) * np.minimum(FEW_GPUS / columns["num_gpus"], 1)
    share = np.where(has_pipeline(columns), 1.0, of_many)
    found: Floats = SAMPLED_S_PER_DRAW / RANK_STEPS_PER_DRAW * steps * share + PLAN_STEP_S * plans
    return found


def _simulated(
    columns: Columns, *, with_causes: bool = True, with_spread: bool = True
) -> tuple[Floats, Floats]:
    """(points,) steps of single GPUs, and of plans; 0 where a rule is broken."""
    steps, plans = np.zeros(columns.num_points), np.zeros(columns.num_points)
    rows = np.flatnonzero(is_simulated(columns) | has_pipeline(columns))
    rows = rows[failures(columns.part(rows)) == 0]
    sound = columns.part(rows)
    # The spread of pipelines is counted beside the causes, that of others is not simulated.
    piped = has_pipeline(sound) & with_spread
    plans[rows] = plan_steps(sound)
    steps[rows] = rank_steps(sound, with_causes=with_causes, with_spread=with_spread)
    if not with_causes and piped.any():
        steps[rows[piped]] = rank_steps(sound.part(np.flatnonzero(piped)))
    return steps, plans


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
