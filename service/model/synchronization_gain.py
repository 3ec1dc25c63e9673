"""What waiting less often brings: throughput against the same job that waits in every step.

No statistical penalty is assumed, because none is universal; what the gain may be eaten up by is
told instead. Design page "The model", section 6.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from service.model.columns import Columns, Floats
from service.model.fleets import structures_of
from service.model.leaves import leaves
from service.model.steps import steps_of
from service.model.times import compute_ms, outside_ms
from service.model.waiting import is_local, is_stale

_EVERY_STEP = 1 + leaves()["synchronization.kind"].labels.index("every_step")


def gain_columns(columns: Columns, step_mean_ms: Floats) -> dict[str, Floats]:
    """(points,) NaN of every_step and backup_workers."""
    rarely = is_local(columns) | is_stale(columns)
    gain = np.full(columns.num_points, np.nan)
    rows = np.flatnonzero(rarely)
    if len(rows):
        part = every_step(columns.part(rows))
        factors, _ = steps_of(structures_of(part), with_causes=False, with_quantiles=False)
        waiting = outside_ms(part) + compute_ms(part) * factors.step.mean
        gain[rows] = waiting / step_mean_ms[rows] - 1
    return {"break_even_extra_steps_fraction": gain}


def every_step(columns: Columns) -> Columns:
    """The same points, but everybody waits for everybody in every step."""
    values: dict[str, Any] = dict(columns.values)
    for path, leaf in leaves().items():
        if path.startswith("synchronization."):
            values[path] = np.array([leaf.absent], dtype=leaf.dtype)
    values["synchronization.kind"] = np.array([_EVERY_STEP], dtype=np.int64)
    return replace(columns, values=values, barrier_key=None, step_key=None, size_key=None)
