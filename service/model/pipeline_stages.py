"""What each stage of a pipeline does in a pass at nominal speed."""

from typing import NamedTuple

import numpy as np

from service.model.columns import Columns, Floats
from service.model.drawn_passes import times_of
from service.model.pipeline.engine import busy_ms
from service.model.pipeline.peaks import peak_microbatches_in_flight
from service.model.pipeline.plans import plan_of
from service.model.pipelines import by_plan, nominal_pipeline


class NominalStages(NamedTuple):
    """(stages,) each, ms; forward and backward of one micro-batch, all chunks of the stage.

    peak   micro-batches whose activations it holds at once
    """

    forward: Floats
    backward: Floats
    busy: Floats
    idle: Floats
    peak: Floats


def nominal_stages(columns: Columns) -> NominalStages:
    """Of one point with a pipeline; idle is what its pass takes beyond busy."""
    ((name, sizes, _),) = by_plan(columns, np.arange(1))
    plan = plan_of(name, *sizes)
    times = times_of(columns)
    busy = busy_ms(plan, times.forward, times.backward, weight_fraction=times.weight_fraction)[:, 0]
    return NominalStages(
        forward=times.forward[:, 0],
        backward=times.backward[:, 0],
        busy=busy,
        # Round-off of a stage that is never idle.
        idle=np.maximum(nominal_pipeline(columns).makespan_ms[0] - busy, 0.0),
        peak=peak_microbatches_in_flight(plan),
    )
