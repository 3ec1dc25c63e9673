"""What of an answer may be left out to save its time, and which columns that is."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.causes import CAUSES
from service.model.results import COLUMNS
from service.model.spreads import no_spread


class Wanted(NamedTuple):
    """Which parts are worked out; the columns of the others stay empty, all others are the same.

    spread     how the loss of the window differs between clusters: may take longer than the rest
    causes     the counterfactuals: a step for each cause without it
    quantiles  of single steps, and of single passes through a pipeline
    """

    spread: bool = True
    causes: bool = True
    quantiles: bool = True


PART_COLUMNS: dict[str, tuple[str, ...]] = {
    "spread": tuple(no_spread(0)),
    "causes": tuple(
        f"gpu_hours_{name}"
        for name in (*CAUSES, "reducible_by_eviction", "reducible_by_waiting", "irreducible")
    ),
    "quantiles": (
        "step_p50_ms",
        "step_p95_ms",
        "step_p99_ms",
        "pipeline_makespan_ms_p50",
        "pipeline_makespan_ms_p95",
    ),
}
"""The columns that are empty where the part is not wanted, by the names of `Wanted`."""

_KINDS = {column.name: column.kind for column in COLUMNS}


def empty_columns(wanted: Wanted, num_points: int) -> dict[str, NDArray[Any]]:
    """The columns of what is not wanted: NaN, and -1 in enum columns."""
    return {
        name: np.full(num_points, -1, dtype=np.int8)
        if _KINDS[name] == "enum"
        else np.full(num_points, np.nan)
        for part, names in PART_COLUMNS.items()
        if not getattr(wanted, part)
        for name in names
    }
