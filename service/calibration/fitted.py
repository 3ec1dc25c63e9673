"""One fit: ranks that stand apart first, then spikes, then what the others vary by."""

import math

import numpy as np
from msgspec import Struct
from scipy import special

from service.calibration.components import Split, split_of
from service.calibration.families import family_of
from service.calibration.findings import Estimate, FamilyChoice, Outlier
from service.calibration.observed import Observed, comparable, mean_of, stage_groups
from service.calibration.outliers import Apart, apart_of
from service.calibration.refusals import refused
from service.calibration.spikes import Spikes, spikes_of
from service.calibration.timings import BoolArray, FloatArray

MIN_HEALTHY = 2
MIN_STEPS_TOLD = 5
"""Half of the steps that a fit needs, since half of them are fitted alone for the held-out ones."""


class Fitted(Struct, frozen=True, kw_only=True):
    """What is known of `observed`.

    level_ms    (stages,) mean compute of the healthy ranks of each stage, in the order of stages
    of_stage    (ranks,) which of them
    healthy     (ranks,) those that do not stand apart
    told        (steps,) those with at least two healthy ranks
    cells       (told steps, healthy ranks) by their stage's level, spikes left out
    """

    observed: Observed
    apart: list[Apart]
    healthy: BoolArray
    of_stage: np.ndarray
    level_ms: FloatArray
    told: BoolArray
    cells: FloatArray
    spikes: Spikes
    split: Split
    family: FamilyChoice
    compute_ms: Estimate


def blocks_of(num_steps: int) -> BoolArray:
    """(steps,) the even ones of about twenty blocks of steps, whose others are held out."""
    length = max(num_steps // 20, 1)
    even: BoolArray = np.arange(num_steps) // length % 2 == 0
    return even


def fitted_of(observed: Observed, confidence: float) -> Fitted:
    """Fit; raises TimingsRefusedError where too few ranks are alike to tell what is usual."""
    apart = apart_of(observed)
    healthy = np.ones(len(observed.ranks), dtype=np.bool_)
    # A fast rank is apart too: it belongs to no one law with the others.
    healthy[[one.position for one in apart]] = False
    if healthy.sum() < MIN_HEALTHY:
        raise refused(
            "too_few_ranks",
            f"of {len(healthy)} ranks {len(apart)} stand apart from each other, so nothing says "
            "what is usual; more ranks are needed",
        )
    # Whoever shares hardly a step with the others says nothing, and neither does its absence.
    told, healthy = comparable(np.isfinite(observed.compute_ms), healthy)
    if told.sum() < MIN_STEPS_TOLD:
        raise refused(
            "too_few_steps",
            f"in only {told.sum()} steps at least two ranks that do not stand apart were timed, "
            f"{MIN_STEPS_TOLD} are needed",
        )
    usual = observed.with_ranks(healthy).with_steps(told)
    spikes = spikes_of(usual.compute_ms, confidence)
    kept = np.where(spikes.cells, np.nan, usual.compute_ms)
    kinds = stage_groups(observed.stages, len(healthy))
    of_stage = np.empty(len(healthy), dtype=np.int64)
    for number, ranks in enumerate(kinds):
        of_stage[ranks] = number
    place = of_stage[healthy]
    level_ms = _levels(kept, place, len(kinds))
    cells = kept / level_ms[place]
    num_kinds = len(np.unique(place))
    split = split_of(cells, usual, confidence, num_kinds=num_kinds)
    family = family_of(
        cells, usual.steps, blocks_of(len(usual.steps)), _step_cv(split), split.memory
    )
    return Fitted(
        observed=observed,
        apart=apart,
        healthy=healthy,
        of_stage=of_stage,
        level_ms=level_ms,
        told=told,
        cells=cells,
        spikes=spikes,
        split=split,
        family=family,
        compute_ms=_compute(split, float(np.nanmean(level_ms)), confidence),
    )


def _step_cv(split: Split) -> float:
    return math.hypot(split.cv("transient"), split.cv("replica"))


def _levels(cells: FloatArray, place: np.ndarray, num_kinds: int) -> FloatArray:
    """(stages,) mean of the ranks' means; NaN for a stage without a healthy rank."""
    means = mean_of(cells, axis=0)
    known = np.isfinite(means)
    counts = np.bincount(place[known], minlength=num_kinds)
    sums = np.bincount(place[known], weights=means[known], minlength=num_kinds)
    levels: FloatArray = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return levels


def _compute(split: Split, level_ms: float, confidence: float) -> Estimate:
    """Mean of the stages' levels, with what ranks and steps vary by as its error."""
    value = level_ms * split.mean
    reach = split.standard_error * float(special.stdtrit(max(split.dof, 1.0), (1 + confidence) / 2))
    return Estimate(
        value=value,
        low=max(value * (1 - reach), 0.0),
        high=value * (1 + reach),
        method="student_t",
    )


def outliers_of(fitted: Fitted, confidence: float) -> list[Outlier]:
    """The ranks that stand apart, as they are reported."""
    return [_outlier(fitted, one, confidence) for one in fitted.apart]


def _outlier(fitted: Fitted, one: Apart, confidence: float) -> Outlier:
    observed, change = fitted.observed, one.change
    return Outlier(
        rank=int(observed.ranks[one.position]),
        node=None if observed.nodes is None else int(observed.nodes[one.position]),
        stage=None if observed.stages is None else int(observed.stages[one.position]),
        kind=one.kind,
        speed_fraction=_speed(fitted, one, confidence),
        robust_deviations=one.deviations,
        from_step=None if change is None else int(observed.steps[change.first]),
        to_step=None if change is None else int(observed.steps[change.last]),
    )


def time_ratio(fitted: Fitted, position: int) -> float:
    """Mean compute of a rank by that of the healthy ranks of its stage, over the same steps."""
    series = fitted.observed.compute_ms[fitted.told, position]
    known = np.isfinite(series)
    of_steps = mean_of(fitted.cells[known], axis=1)
    level = fitted.level_ms[fitted.of_stage[position]]
    return float(series[known].sum() / of_steps.sum() / level) * fitted.split.mean


def _speed(fitted: Fitted, one: Apart, confidence: float) -> Estimate:
    """1 / ratio of times, with the rank's own scatter and the nominal's error."""
    split, change = fitted.split, one.change
    num_steps = len(fitted.observed.steps)
    scatter = (split.cv("transient") ** 2 + split.cv("replica") ** 2) * split.memory.inflation
    if change is None:
        ratio = time_ratio(fitted, one.position)
        if not math.isfinite(ratio):
            return Estimate(value=1 / one.ratio, low=None, high=None, method="no_other_rank")
        # Steps move all alike, so the level's error is that of so many ranks.
        alike = int((fitted.healthy & (fitted.of_stage == fitted.of_stage[one.position])).sum())
        lasting = split.cv("persistent") ** 2 + split.cv("node") ** 2
        error = math.sqrt(scatter / num_steps + (lasting + scatter / num_steps) / alike)
        dof = split.lasting_dof
    else:
        ratio = change.ratio
        inside = max(round(change.share * (change.last - change.first + 1)), 1)
        # Medians of blocks are compared: pi/2 times the variance of means.
        error = math.sqrt(math.pi / 2 * scatter * (1 / inside + 1 / max(num_steps - inside, 1)))
        dof = split.lasting_dof
    reach = error * float(special.stdtrit(max(dof, 1.0), (1 + confidence) / 2))
    return Estimate(
        value=1 / ratio,
        low=math.exp(-reach) / ratio,
        high=math.exp(reach) / ratio,
        method="student_t",
    )
