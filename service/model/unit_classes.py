"""The classes of units of a point: GPUs that are alike and independent of each other."""

from collections.abc import Iterator

import numpy as np

from service.model.cluster_means import Class
from service.model.fleet import Fleet, Source
from service.model.gpu_units import GpuUnits
from service.model.laws.law import Law
from service.model.rank_law import merged
from service.model.step_factor import StepFactor


def unit_classes(fleet: Fleet) -> Iterator[list[Class]]:
    """Those of each point."""
    lasting = merged([source for source in (fleet.persistent, fleet.node) if source is not None])
    per_step = merged([source for source in (fleet.transient, fleet.replica) if source is not None])
    for point in range(fleet.num_points):
        rows = slice(point, point + 1)
        step = StepFactor(
            law=per_step[0].law,
            shape=per_step[0].shape[:, rows],
            spike_probability=0.0
            if fleet.spikes is None
            else float(fleet.spikes.probability[point]),
            spike_slowdown=1.0 if fleet.spikes is None else float(fleet.spikes.slowdown[point]),
        )
        yield [
            Class(
                law=GpuUnits(
                    law=lasting[0].law,
                    shape=lasting[0].shape[:, rows],
                    power=1.0,
                    mean=float(fleet.mean[kind, point]),
                    step=step,
                ),
                num_units=float(fleet.num_gpus[kind, point]),
                group=kind,
            )
            for kind in np.flatnonzero(fleet.num_gpus[:, point] > 0).tolist()
        ]
