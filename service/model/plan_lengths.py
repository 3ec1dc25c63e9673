"""How long the plans of pipelines take to be worked through, beside draws of them.

A step is a level of a plan, all stages at once: measured at some 0.4 ms for all that is asked of
one plan, compiling included. Formulas need no plan.
"""

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.pipelines import are_stages_simulated, bends, by_plan, makespans_of
from service.model.stage_sizes import has_pipeline, num_chunks, num_microbatches, num_stages

Mask = NDArray[np.bool_]

LISTS = ("forward_ms", "backward_ms", "stage_weights")
BY_FORMULA = ("naive", "gpipe", "1f1b")
"""Of equal stages, whatever the sizes and times."""
STEPS_OF_A_FORMULA = 1.5
"""What pipelines of one size take beside their points, where no plan is needed."""
CHUNK_MICROBATCHES_PER_STEP = 40.0
"""P M V that are put into an order while a level is worked through."""


def chunk_microbatches(columns: Columns) -> Floats:
    """(points,) P M V, of which a plan has two or three operations each; 1 without a pipeline."""
    found: Floats = num_stages(columns) * num_microbatches(columns) * num_chunks(columns)
    return found


def steps_where_simulated(columns: Columns) -> Floats:
    """(points,) whose operations are drawn, else 0: a quick look, which asks for no rule."""
    chunks = num_microbatches(columns) * num_chunks(columns)
    steps = chunk_microbatches(columns) / CHUNK_MICROBATCHES_PER_STEP + chunks
    return np.where(are_stages_simulated(columns), steps + num_stages(columns), 0.0)


def plan_steps(columns: Columns) -> Floats:
    """(points,) of points with a plan that none before them has, else 0; all keep the rules."""
    found = np.zeros(columns.num_points)
    piped = np.flatnonzero(has_pipeline(columns))
    if not len(piped):
        return found
    worked_through = are_stages_simulated(columns) | bends(columns)
    unequal = _is_unequal(columns)
    for name, sizes, rows in by_plan(columns, piped):
        found[rows[0]] = STEPS_OF_A_FORMULA
        by_formula = name in BY_FORMULA and not unequal[rows].any()
        if worked_through[rows].any() or not (
            by_formula or makespans_of(columns.part(rows), name, sizes).is_closed.all()
        ):
            chunks = sizes.microbatches * sizes.chunks
            ordered = sizes.stages * chunks / CHUNK_MICROBATCHES_PER_STEP
            found[rows[0]] = ordered + chunks + sizes.stages
    return found


def _is_unequal(columns: Columns) -> Mask:
    """(points,) whether stages may differ."""
    unequal = np.zeros(columns.num_points, dtype=np.bool_)
    for name in LISTS:
        values = columns.values[f"pipeline.{name}"].tolist()
        unequal |= np.array([isinstance(value, tuple) for value in values])
    return unequal
