"""What timings must be before anything is fitted: refused with the numbers, or said as a remark."""

from typing import NamedTuple

import numpy as np

from service.calibration.findings import LeftOut, Remark
from service.calibration.job_size import job_size
from service.calibration.missing_cells import missing_remarks
from service.calibration.observed import Observed, comparable, median_of, observed_of
from service.calibration.options import CalibrationOptions
from service.calibration.phase_checks import check_phases
from service.calibration.refusals import refused
from service.calibration.timings import BoolArray, FloatArray, Timings
from service.calibration.waiting_included import check_said

MIN_STEPS = 10
"""Of fewer steps the 90 % interval of a spread from step to step is wider than a factor of 2.3
(chi-square, 9 degrees of freedom), and halves to fit and to hold out have fewer than five."""

FEW_STEPS = 30
MIN_RANKS = 2
FEW_RANKS = 5
MAX_CELLS = 20_000_000
"""A matrix of them is 160 MB, and a fit holds some eight."""

MIN_SHARE_OF_STEPS = 0.5
MIN_VALUES = 4
_OVERLAP_ALONE = (
    "; whether communication overlaps is told by three: trainard calibrate --overlap-only, or "
    "POST /v1/overlap-audits/files"
)


class Checked(NamedTuple):
    """What may be fitted."""

    observed: Observed
    kept_steps: BoolArray
    kept_ranks: BoolArray
    left_out: list[LeftOut]
    warnings: list[Remark]


def checked(timings: Timings, options: CalibrationOptions) -> Checked:
    """Refuse what tells nothing; leave out ranks and steps that are hardly there.

    Raises TimingsRefusedError.
    """
    _check_size(timings)
    kept_ranks, kept_steps, left_out = _kept(timings.compute_ms)
    observed = observed_of(timings).with_steps(kept_steps).with_ranks(kept_ranks)
    warnings = [*timings.warnings, *_check_counts(observed, timings, options)]
    cells = observed.compute_ms
    _check_values(cells)
    check_said(includes_wait=timings.includes_wait)
    warnings += missing_remarks(cells, observed.steps)
    warnings += check_phases(
        timings, kept_steps, kept_ranks, load_is_prefetched=options.load_is_prefetched
    )
    warnings += _resolution(cells)
    return Checked(observed, kept_steps, kept_ranks, left_out, warnings)


def _check_size(timings: Timings) -> None:
    num_cells = timings.num_steps * timings.num_ranks
    if num_cells > MAX_CELLS:
        fewer = max(MAX_CELLS // max(timings.num_ranks, 1), 1)
        raise refused(
            "too_many_cells",
            f"{timings.num_steps} steps of {timings.num_ranks} ranks are {num_cells} cells, at "
            f"most {MAX_CELLS} are fitted; {fewer} consecutive steps would do and tell as much",
        )
    if num_cells == 0 or not np.isfinite(timings.compute_ms).any():
        raise refused("no_steps", "no rank has a compute time in any step")


def _kept(cells: FloatArray) -> tuple[BoolArray, BoolArray, list[LeftOut]]:
    """Ranks with half of the steps or more, and steps in which at least two of them are there."""
    present = np.isfinite(cells)
    often = present.sum(axis=0)
    if present.shape[1] < MIN_RANKS:
        alone: BoolArray = present[:, 0]
        return np.ones(1, dtype=np.bool_), alone, []
    kept_steps, kept_ranks = comparable(present, often >= MIN_SHARE_OF_STEPS * often.max())
    left_out = []
    for reason, kept in (
        ("rank with less than half of the steps of the others", kept_ranks),
        ("step with fewer than two ranks", kept_steps),
    ):
        if not kept.all():
            left_out.append(LeftOut(reason=reason, count=int((~kept).sum())))
    return kept_ranks, kept_steps, left_out


def _check_counts(
    observed: Observed, timings: Timings, options: CalibrationOptions
) -> list[Remark]:
    num_steps, num_ranks = observed.compute_ms.shape
    world = timings.world_size
    if num_ranks == 0:
        raise refused(
            "missing_ranks",
            "no two ranks were timed in the same steps, so nothing says how far ranks differ",
        )
    if num_ranks < MIN_RANKS:
        of_all = "" if world is None or world < MIN_RANKS else f" of {world}"
        raise refused(
            "one_rank_only",
            f"only rank {observed.ranks[0]}{of_all} was timed: one rank says nothing about how far "
            "ranks differ; record all ranks, or use the coarse start from step times",
        )
    if num_steps < MIN_STEPS:
        raise refused(
            "too_few_steps",
            f"{num_steps} steps, at least {MIN_STEPS} are needed (after skipped ones), and "
            f"{FEW_STEPS} tell much more{_OVERLAP_ALONE if timings.collectives else ''}",
        )
    remarks = []
    if num_steps < FEW_STEPS:
        remarks.append(
            Remark(
                code="few_steps",
                detail=f"{num_steps} steps: what varies from step to step is known only roughly; "
                f"{FEW_STEPS} or more narrow the intervals",
            )
        )
    if num_ranks < FEW_RANKS:
        remarks.append(
            Remark(
                code="few_ranks",
                detail=f"{num_ranks} ranks: how far ranks differ is known only roughly, and a slow "
                "one is told from the others only by a gap of 10 %",
            )
        )
    remarks += _missing_ranks(num_ranks, timings, options)
    if (np.diff(observed.steps) > 1).any():
        gaps = int((np.diff(observed.steps) > 1).sum())
        remarks.append(
            Remark(
                code="gaps_in_steps",
                detail=f"{num_steps} steps from {observed.steps[0]} to {observed.steps[-1]} with "
                f"{gaps} gaps: autocorrelation rests on adjacent steps only",
            )
        )
    return remarks


def _missing_ranks(num_ranks: int, timings: Timings, options: CalibrationOptions) -> list[Remark]:
    size = max(timings.num_gpus_per_rank, options.tensor_parallel_size)
    if options.num_gpus is not None and options.num_gpus < num_ranks * size:
        raise refused(
            "missing_ranks",
            f"num_gpus is {options.num_gpus}, but {num_ranks} ranks of {size} GPUs were timed, "
            f"which are {num_ranks * size}",
        )
    if options.num_gpus is not None and options.num_gpus % size:
        raise refused(
            "bad_value",
            f"num_gpus is {options.num_gpus}, which is no multiple of {size}, the GPUs of a rank",
        )
    job = job_size(timings, options)
    if job.num_ranks <= num_ranks:
        # Where communication is told, that of the last of all ranks is taken from it.
        is_used = timings.communication_ms is not None and job.assumption is not None
        return [Remark(code="job_size_assumed", detail=str(job.assumption))] if is_used else []
    if not job.is_said and any(said.code == "ranks_missing" for said in timings.warnings):
        return []
    of_all = f"{'' if job.is_said else 'at least '}{job.num_ranks}"
    return [
        Remark(
            code="missing_ranks",
            detail=f"{num_ranks} of {of_all} ranks were timed: slow ones among the other "
            f"{job.num_ranks - num_ranks} are not seen, and the observed slowest is that of fewer "
            "ranks",
        )
    ]


def _check_values(cells: FloatArray) -> None:
    known = cells[np.isfinite(cells)]
    if (known <= 0).any():
        raise refused(
            "bad_value",
            f"a compute time is {known.min():g} ms; every one must be above 0, or missing",
        )
    few = np.unique(known[:1_000_000])
    if len(few) < MIN_VALUES:
        values = ", ".join(f"{value:g}" for value in few.tolist())
        raise refused(
            "no_variation",
            f"all {known.size} compute times are one of {len(few)} values ({values} ms): constants "
            "or a timer too coarse to see spread; at least "
            f"{MIN_VALUES} different values are needed",
        )


def _resolution(cells: FloatArray) -> list[Remark]:
    """Whether the timer's ticks are as coarse as what they are to show."""
    sample = cells[np.isfinite(cells)][:200_000]
    values = np.unique(sample)
    tick = float(np.diff(values).min())
    rank_spread = np.abs(np.diff(cells, axis=0))
    spread = float(np.nanmedian(rank_spread))
    if len(values) * 5 > len(sample) or tick < spread / 2:
        return []
    return [
        Remark(
            code="coarse_timer",
            detail=f"compute times come in ticks of {tick:g} ms and change by {spread:g} ms from "
            "step to step: the timer is as coarse as the spread",
        )
    ]


def trend_of(observed: Observed, expected_cv: float) -> list[Remark]:
    """A remark where the median of all ranks drifts over the steps."""
    of_steps = median_of(observed.compute_ms, axis=1)
    third = len(of_steps) // 3
    first, last = float(np.median(of_steps[:third])), float(np.median(of_steps[-third:]))
    drift = last / first - 1
    noise = 1.4826 * float(np.median(np.abs(np.diff(of_steps)))) / np.sqrt(2 * third) / first
    if abs(drift) <= max(0.01, 6 * noise, expected_cv / 2):
        return []
    return [
        Remark(
            code="not_stationary",
            detail=f"the median compute of a step moved by {drift:+.1%} from the first third of "
            "the steps to the last: the fit is an average over that change",
        )
    ]
