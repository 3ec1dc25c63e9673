"""What a GPU of a pipeline holds: activations of micro-batches in flight, and parameters.

The same job at other sizes, on the same GPUs (`same_job.py`): a micro-batch of M of a replica, at a
stage of P, keeps activations in proportion to samples x layers, that is to 1 / (D M) x 1 / P, and
D P is N / T. So the peak goes with micro-batches in flight over M. Parameters of a stage go with
1 / P; a schedule of both directions holds them twice.
"""

from typing import NamedTuple

import numpy as np

from service.model.columns import Columns, Floats
from service.model.pipeline import SCHEDULES
from service.model.stage_sizes import SCHEDULE_NAMES, has_pipeline, num_microbatches, num_stages


class StageMemory(NamedTuple):
    """(points,) relative to point 0: 1 is as much; NaN where either has no pipeline."""

    activations_ratio: Floats
    parameters_ratio: Floats


def memory_of(columns: Columns, peaks: Floats) -> StageMemory:
    """Of one job at several sizes; `peaks` (points,) are its most micro-batches in flight."""
    piped = has_pipeline(columns)
    in_flight = np.where(piped, peaks / num_microbatches(columns), np.nan)
    copies = np.array([copies_of(code) for code in columns["pipeline.schedule"].tolist()])
    parameters = np.where(piped, copies / num_stages(columns), np.nan)
    return StageMemory(in_flight / in_flight[0], parameters / parameters[0])


def copies_of(code: int) -> int:
    """How often a GPU holds the parameters of one stage, by the schedule's code; 1 without one."""
    return 2 if code and SCHEDULES[SCHEDULE_NAMES[code - 1]].layout == "both_ways" else 1
