"""Rules about simulations that would take too long; they hold of points that break no other."""

import numpy as np

from service.model.columns import COUNT, PLACEMENT, SPEED, Columns, columns_of
from service.model.fields import Scenario
from service.model.laws.law import Floats
from service.model.pipeline.fixed_places import MAX_WORST_PLACEMENTS, num_worst_placements
from service.model.pipeline.shape import WORST
from service.model.pipeline.simulation_size import MAX_WHOLE_GPUS
from service.model.recursion.lengths import MAX_RANK_STEPS
from service.model.rulebook.rule import Mask, Rule, Said
from service.model.simulated_points import MAX_OPERATIONS, operations, rank_steps
from service.model.stage_sizes import num_stages


def _too_long(columns: Columns) -> Mask:
    broken: Mask = rank_steps(columns, with_causes=False) > MAX_RANK_STEPS
    return broken


def _say_too_long(scenario: Scenario) -> tuple[str, str]:
    needed = float(rank_steps(columns_of(scenario), with_causes=False)[0])
    return (
        "/synchronization",
        (
            f"who waits for whom has no formula here, and a simulation of {needed:.2g} steps of "
            f"single GPUs takes too long: at most {MAX_RANK_STEPS:.2g}. Fewer GPUs, draws or steps "
            "between exchanges would do"
        ),
    )


def _num_placements(columns: Columns) -> Floats:
    found = np.zeros(columns.num_points)
    of_worst = np.where(columns[PLACEMENT] == WORST, columns[COUNT], 0)
    stages = num_stages(columns)
    asked = np.any(of_worst > 0, axis=1)
    for size in np.unique(stages[asked]).tolist():
        rows = np.flatnonzero(asked & (stages == size))
        slowness = 1 / columns[SPEED][rows].T
        found[rows] = num_worst_placements(int(size), of_worst[rows].T, slowness)
    return found


def _too_many_placements(columns: Columns) -> Mask:
    broken: Mask = _num_placements(columns) > MAX_WORST_PLACEMENTS
    return broken


def _say_too_many_placements(scenario: Scenario) -> Said:
    number = float(_num_placements(columns_of(scenario))[0])
    return (
        "/slow_groups",
        (
            f"the worst of {number:.3g} placements of the slow GPUs would have to be found, at "
            f"most {MAX_WORST_PLACEMENTS} are tried; name their stages instead"
        ),
    )


def _too_many_sampled(columns: Columns) -> Mask:
    broken: Mask = operations(columns, with_causes=False) > MAX_OPERATIONS
    return broken


def _say_too_many_sampled(scenario: Scenario) -> Said:
    needed = float(operations(columns_of(scenario), with_causes=False)[0])
    if needed == np.inf:
        held = scenario.num_gpus + scenario.num_spare_gpus
        detail = (
            "GPUs of the pipeline vary while some stand by, or are slow at random places: all "
            f"{held} are drawn together then, and memory is for {MAX_WHOLE_GPUS}. Slow GPUs at a "
            "stage that is named, none that stand by, or fewer GPUs would do"
        )
        return "/num_gpus", detail
    return (
        "/draws",
        (
            f"GPUs of the pipeline differ or vary, so that steps are sampled: {needed:.2g} "
            f"operations take too long, at most {MAX_OPERATIONS:.2g}. Fewer draws, GPUs, "
            "micro-batches or steps between exchanges would do"
        ),
    )


TOO_MANY_RANK_STEPS = Rule("too_many_rank_steps", _too_long, _say_too_long)
TOO_MANY_PLACEMENTS = Rule("too_many_placements", _too_many_placements, _say_too_many_placements)
TOO_MANY_OPERATIONS_SAMPLED = Rule(
    "too_many_operations_sampled", _too_many_sampled, _say_too_many_sampled
)
