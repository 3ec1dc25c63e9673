"""The input columns that are stored beside the outputs, named by their paths."""

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns
from service.model.distributions import FAMILIES

INPUT_LABELS = {"variability.transient.kind": FAMILIES[1:]}
"""Input columns that hold no numbers: stored as the position of their label, -1 for null."""


InputColumn = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int8]


def input_columns(columns: Columns) -> dict[str, InputColumn]:
    """Every leaf that can differ between points as a column (points,).

    NaN, or -1 where the column has labels, where a point has no such leaf.
    """
    has_transient = columns.transient_family != 0
    found: dict[str, InputColumn] = {
        "num_gpus": columns.num_gpus,
        "load_ms": columns.load_ms,
        "compute_ms": columns.compute_ms,
        "communication.allreduce_ms": columns.allreduce_ms,
        "variability.transient.kind": (columns.transient_family - 1).astype(np.int8),
        "variability.transient.cv": np.where(has_transient, columns.transient_cv, np.nan),
        "period_days": columns.period_days,
    }
    for group in range(columns.slow_count.shape[1]):
        count, speed = columns.slow_count[:, group], columns.slow_speed[:, group]
        present = count > 0
        found[f"slow_groups.{group}.count"] = np.where(present, count, np.nan)
        found[f"slow_groups.{group}.speed_fraction"] = np.where(present, speed, np.nan)
    return found
