"""Stages that take different times, as a pipeline, where the source tells the passes."""

import numpy as np

from service.calibration.findings import ProposedValue
from service.calibration.fitted import Fitted
from service.calibration.timings import FloatArray, Timings
from service.calibration.variability import rounded

SCHEDULE = "1f1b"


def pipeline_values(
    timings: Timings, fitted: Fitted, group_to_gpu: float
) -> list[ProposedValue] | None:
    """compute_ms, pipeline and backward_fraction; None without stages 0, 1, … and passes.

    The time of a stage is the mean over its healthy ranks. Their schedule is not in the timings:
    1F1B is assumed, and said so.
    """
    passes, stages = timings.passes, fitted.observed.stages
    if passes is None or stages is None:
        return None
    numbers = np.unique(stages)
    if len(numbers) < 2 or numbers.tolist() != list(range(len(numbers))):
        return None
    # Ranks and steps that were left out are not in `fitted`.
    steps = np.isin(timings.steps, fitted.observed.steps)
    ranks = np.isin(timings.ranks, fitted.observed.ranks)
    forward = _of_stages(passes.forward_ms[steps][:, ranks], fitted, len(numbers)) / group_to_gpu
    backward = _of_stages(passes.backward_ms[steps][:, ranks], fitted, len(numbers)) / group_to_gpu
    if not (np.isfinite(forward).all() and np.isfinite(backward).all()):
        return None
    forward_ms, backward_ms = ([rounded(value) for value in part] for part in (forward, backward))
    microbatches = passes.num_microbatches
    each = float(np.mean(forward_ms)) + float(np.mean(backward_ms))
    compute = fitted.compute_ms
    by_level = microbatches * each / compute.value
    return [
        ProposedValue(
            path="compute_ms",
            value=microbatches * each,
            low=None if compute.low is None else rounded(compute.low * by_level),
            high=None if compute.high is None else rounded(compute.high * by_level),
            reason=f"{microbatches} micro-batches of a forward and a backward, mean over stages",
        ),
        ProposedValue(
            path="pipeline",
            value={
                "schedule": SCHEDULE,
                "stages": len(numbers),
                "microbatches": microbatches,
                "forward_ms": forward_ms,
                "backward_ms": backward_ms,
            },
            low=None,
            high=None,
            reason="passes of each stage, mean over its ranks that do not stand apart; the "
            f"schedule is not in the timings: {SCHEDULE} is assumed",
        ),
        ProposedValue(
            path="backward_fraction",
            value=rounded(float(np.mean(backward_ms)) / each),
            low=None,
            high=None,
            reason="backward by forward and backward, mean over stages",
        ),
    ]


def _of_stages(cells: FloatArray, fitted: Fitted, num_stages: int) -> FloatArray:
    """(stages,) mean over healthy ranks and steps."""
    found = np.full(num_stages, np.nan)
    for stage in range(num_stages):
        chosen = fitted.healthy & (fitted.of_stage == stage)
        if chosen.any() and np.isfinite(cells[:, chosen]).any():
            found[stage] = np.nanmean(cells[:, chosen])
    return found
