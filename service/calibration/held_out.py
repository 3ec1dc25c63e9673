"""The proposed scenario against steps that it was not fitted to."""

from typing import Any

import numpy as np

from service.calibration.findings import HeldOut
from service.calibration.fitted import Fitted, blocks_of, fitted_of, time_ratio
from service.calibration.gaps import max_to_mean_of, mean_over_steps
from service.calibration.lockstep import largest_of
from service.calibration.observed import Observed
from service.calibration.refusals import TimingsRefusedError
from service.calibration.timings import FloatArray, IntArray
from service.calibration.variability import Shape, slow_kinds, sources_of
from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.scenario import apply_overrides, decode_scenario

MIN_STEPS = 10
GROUPS_TO_TRY = (16, 8, 4, 3, 2, 1)


def held_out_of(observed: Observed, gpus_per_rank: int, confidence: float) -> HeldOut | None:
    """Fit the even blocks of steps alone and predict the mean of slowest by mean of the others.

    All of it is done anew: ranks that stand apart, components, family. None where half of the
    steps tell too little.
    """
    even = blocks_of(len(observed.steps))
    fitted_part, others = observed.with_steps(even), observed.with_steps(~even)
    if len(others.steps) < 2:
        return None
    try:
        fitted = fitted_of(fitted_part, confidence)
    except TimingsRefusedError:
        return None
    predicted = predicted_max_to_mean(fitted, gpus_per_rank)
    if predicted is None:
        return None
    seen = mean_over_steps(max_to_mean_of(others.compute_ms), others.steps, confidence)
    return HeldOut(
        num_fitted_steps=len(fitted_part.steps),
        num_held_out_steps=len(others.steps),
        observed_max_to_mean_ratio=seen,
        predicted_max_to_mean_ratio=predicted,
        relative_error=predicted / seen.value - 1,
        independent_normal_max_to_mean_ratio=independent_normal_ratio(fitted_part.compute_ms),
    )


def independent_normal_ratio(cells: FloatArray) -> float:
    """Largest by mean if all cells were independent draws of one normal law: 1 + cv e_N."""
    known = cells[np.isfinite(cells)]
    cv = float(known.std(ddof=1) / known.mean())
    return 1 + cv * largest_of(cells.shape[1])[0]


def predicted_max_to_mean(fitted: Fitted, gpus_per_rank: int) -> float | None:
    """Expected slowest compute of the observed ranks' scenario by the mean of all cells.

    Stages are kinds of GPUs here, since compute alone is compared: each kind as fast as its level.
    """
    for max_groups in GROUPS_TO_TRY:
        document = _observed_ranks(fitted, gpus_per_rank, max_groups)
        try:
            scenario = decode_scenario(document)
        except InvalidScenario:
            continue
        found = evaluate(
            columns_of(scenario), with_spread=False, with_causes=False, with_quantiles=False
        )
        slowest_ms = float(found.columns["slowest_compute_mean_ms"][0])
        return slowest_ms / _mean_of_all(fitted)
    return None


def _mean_of_all(fitted: Fitted) -> float:
    return float(np.nanmean(fitted.observed.compute_ms))


def _observed_ranks(fitted: Fitted, gpus_per_rank: int, max_groups: int) -> dict[str, Any]:
    """A scenario of the ranks that were observed, without a pipeline."""
    shape = Shape(gpus_per_rank=gpus_per_rank, is_piped=False, max_groups=max_groups)
    sources = sources_of(fitted, shape)
    fastest = float(np.nanmin(fitted.level_ms)) * fitted.split.mean
    ratios: list[tuple[float, int | None]] = [
        (_time_ms(fitted, position) / fastest, None) for position in _other_ranks(fitted)
    ]
    kinds = slow_kinds(ratios, max_groups, sources.group_to_gpu)
    overrides = {value.path: value.value for value in sources.values}
    return apply_overrides(
        {
            "num_gpus": len(fitted.observed.ranks) * gpus_per_rank,
            "compute_ms": fastest / sources.group_to_gpu,
            "tensor_parallel_size": gpus_per_rank,
            "slow_groups": [
                {"count": kind.count, "speed_fraction": kind.speed_fraction} for kind in kinds
            ],
        },
        overrides | _whole_nodes(fitted, gpus_per_rank),
    )


def _whole_nodes(fitted: Fitted, gpus_per_rank: int) -> dict[str, Any]:
    if fitted.observed.nodes is None:
        return {}
    return {"gpus_per_node": usual_node_size(fitted.observed.nodes) * gpus_per_rank}


def usual_node_size(nodes: IntArray) -> int:
    """Ranks of most nodes; `nodes` (ranks,)."""
    _, sizes = np.unique(nodes, return_counts=True)
    return int(np.bincount(sizes).argmax())


def _other_ranks(fitted: Fitted) -> list[int]:
    """Slow ranks, and the healthy ones of stages that take longer than the fastest."""
    slow = [one.position for one in fitted.apart if one.kind == "slow"]
    order = np.nanargmin(fitted.level_ms)
    longer = np.flatnonzero(fitted.healthy & (fitted.of_stage != order)).tolist()
    return sorted([*slow, *longer])


def _time_ms(fitted: Fitted, position: int) -> float:
    level = float(fitted.level_ms[fitted.of_stage[position]])
    if fitted.healthy[position]:
        return level * fitted.split.mean
    return time_ratio(fitted, position) * level
