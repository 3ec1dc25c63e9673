"""What operations take, without jitter."""

from dataclasses import dataclass

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.operations import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    FORWARD_BACKWARD,
    KINDS,
    Integers,
)
from service.model.pipeline.plan import Plan


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeRows:
    """The different times of a plan: one row for each kind, stage and parts of the model.

    `row` (operations,) is the row of each operation; the others (rows,). `count` is how many
    operations have the row.
    """

    row: Integers
    count: Integers
    kind: Integers
    stage: Integers
    forward_stage: Integers
    backward_stage: Integers
    chunks: int


def time_rows(plan: Plan) -> TimeRows:
    """Group the operations of a plan by what they take."""
    backward_stage = np.where(
        plan.kind == FORWARD_BACKWARD, plan.partner_model_stage, plan.model_stage
    )
    key = ((plan.kind * plan.stages + plan.stage) * plan.stages + plan.model_stage) * plan.stages
    _, first, row, count = np.unique(
        key + backward_stage, return_index=True, return_inverse=True, return_counts=True
    )
    return TimeRows(
        row=row,
        count=count,
        kind=plan.kind[first],
        stage=plan.stage[first],
        forward_stage=plan.model_stage[first],
        backward_stage=backward_stage[first],
        chunks=plan.chunks,
    )


def row_times(
    rows: TimeRows,
    forward: Floats,
    backward: Floats,
    weight_fraction: Floats,
    factor: Floats | None = None,
) -> Floats:
    """(rows, lanes) ms of an operation; forward, backward, factor (stages, lanes or 1)."""
    times = forward[rows.forward_stage] * _among(rows, FORWARD, FORWARD_BACKWARD)
    of_kind = (
        _among(rows, BACKWARD, FORWARD_BACKWARD)
        + _among(rows, BACKWARD_INPUT) * (1 - weight_fraction)
        + _among(rows, BACKWARD_WEIGHT) * weight_fraction
    )
    times = times + backward[rows.backward_stage] * of_kind
    times /= rows.chunks
    return times if factor is None else times * factor[rows.stage]


def _among(rows: TimeRows, *kinds: int) -> Floats:
    """(rows, 1) one for these kinds."""
    table = np.zeros(len(KINDS))
    table[list(kinds)] = 1
    return table[rows.kind][:, np.newaxis]
