"""What the reader of a result would otherwise miss."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.jobs.batch_documents import Notice
from service.jobs.pipeline_notices import pipeline_notices
from service.model.columns import Columns
from service.model.results import METHODS
from service.model.stage_sizes import has_pipeline
from service.reports.digits import gpu_hours, milliseconds

RECURSION, MONTE_CARLO = (METHODS.index(name) for name in ("recursion", "monte_carlo"))


def notices_of(
    columns: Mapping[str, NDArray[Any]], inputs: Columns, leave_out: Collection[str] = ()
) -> list[Notice]:
    """Of the one point whose output columns and inputs these are; not about what is left out."""
    found = {name: values[0] for name, values in columns.items()}
    return [
        *(
            []
            if "spread" in leave_out
            else _of_spread(found, is_piped=bool(has_pipeline(inputs)[0]))
        ),
        *_of_sampling(found),
        *_of_overlap(found),
        *_of_idleness(found),
        *pipeline_notices(found, inputs),
    ]


def _of_spread(found: Mapping[str, Any], *, is_piped: bool) -> Iterator[Notice]:
    if not np.isnan(found["gpu_hours_lost_p50"]):
        return
    detail = (
        "the spread of the window's loss was not computed: backup workers or replica groups of "
        "several GPUs beside what lasts, or too few steps in the window (see the support matrix of "
        "the model page)"
    )
    if is_piped:
        detail = (
            "the spread of the window's loss was not computed: of pipelines it is not known with "
            "episodes of too many states, where autocorrelation makes the noise of a window, and "
            "with too few steps in the window (see the page about pipelines)"
        )
    elif found["method"] == RECURSION:
        detail = (
            "the spread of the window's loss was not computed: where GPUs do not wait for all "
            "others in every step, and something varies from step to step, steps are simulated, "
            "and only their mean is told"
        )
    yield Notice(pointer="/scenario", code="spread_not_computed", detail=detail)


def _of_sampling(found: Mapping[str, Any]) -> Iterator[Notice]:
    # A pipeline may be worked through operation by operation, and yet be exact.
    if found["method"] not in {RECURSION, MONTE_CARLO} or not found["gpu_hours_lost_se"] > 0:
        return
    lost, error = gpu_hours(found["gpu_hours_lost"]), gpu_hours(found["gpu_hours_lost_se"])
    detail = (
        f"steps are simulated: gpu_hours_lost is {lost} with a standard error of {error} "
        "GPU-hours, and all columns of the step are as uncertain; more draws make it smaller"
    )
    yield Notice(pointer="/scenario/draws", code="simulated", detail=detail)


def _of_overlap(found: Mapping[str, Any]) -> Iterator[Notice]:
    gain, step = found["overlap_gain_ms"], found["step_mean_ms"]
    if not gain < 0:
        return
    detail = (
        f"overlap hurts: a step takes {milliseconds(step)} ms, {milliseconds(-gain)} ms more than "
        f"the {milliseconds(step + gain)} ms of computing first and communicating then; fewer "
        "buckets, or less contention, take less"
    )
    yield Notice(pointer="/scenario/overlap", code="overlap_hurts", detail=detail)


def _of_idleness(found: Mapping[str, Any]) -> Iterator[Notice]:
    ratio, knee = found["compute_to_communication_ratio"], found["idle_knee_ratio"]
    if not ratio < knee:
        return
    detail = (
        f"GPUs idle: compute is {ratio:.3g} times communication, and below {knee:.3g} times no "
        "more of it can be hidden; a step waits "
        f"{milliseconds(found['exposed_communication_ms'])} of "
        f"{milliseconds(found['communication_ms'])} ms for it"
    )
    yield Notice(pointer="/scenario/communication", code="gpus_idle", detail=detail)
