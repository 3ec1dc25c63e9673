"""A fit as the parts of a scenario: nominal compute, what varies, and the slow GPUs."""

import math

import numpy as np
from msgspec import Struct

from service.calibration.components import Part
from service.calibration.findings import Estimate, ProposedValue
from service.calibration.fitted import Fitted, time_ratio
from service.calibration.intervals import cv_estimate
from service.calibration.lockstep import OfGpu, of_gpu
from service.model.rulebook.rules_of_sources import MAX_CV_OF_PRODUCT

SAME_SPEED = 0.02
"""Slow ranks within 2 % of each other are one slow group."""

DIGITS = 6
MAX_CV = 1.0


class Shape(Struct, frozen=True, kw_only=True):
    """How ranks are GPUs of the scenario.

    `is_piped` with a pipeline in it; else stages are kinds of GPUs of their own where `has_kinds`.
    """

    gpus_per_rank: int
    is_piped: bool
    max_groups: int


def rounded(value: float) -> float:
    """To six digits: no timing tells more, and a reader should not be told that it does."""
    return float(f"{value:.{DIGITS}g}")


def law_document(family: str, cv: float, skew: float | None = None) -> dict[str, object]:
    """A declared distribution; a normal law only as far as the model takes it."""
    kind = "lognormal" if family == "normal" and cv > MAX_CV_OF_PRODUCT else family
    document: dict[str, object] = {"kind": kind, "cv": rounded(min(cv, MAX_CV))}
    if skew is not None:
        # Below twice the cv a factor could be negative.
        document["skew"] = max(rounded(skew), 2 * rounded(min(cv, MAX_CV)))
    return document


class Sources(Struct, frozen=True, kw_only=True):
    """The spread by source of the model, and by how much a rank's mean is above a GPU's."""

    values: list[ProposedValue]
    group_to_gpu: float


def sources_of(fitted: Fitted, shape: Shape) -> Sources:
    """The values of `variability`, and `tensor_parallel_size`."""
    split, family = fitted.split, fitted.family
    size = shape.gpus_per_rank
    values: list[ProposedValue] = []
    factor = 1.0
    for name in ("persistent", "node", "transient", "replica", "common"):
        part: Part | None = getattr(split, name)
        if part is None:
            continue
        path = f"variability.{name}"
        why = _WHY[name]
        scale = 1.0
        if name == "transient" and size > 1 and not shape.is_piped:
            path = "variability.replica"
            part = _together(part, split.replica)
            why = f"of a group of {size} GPUs in lockstep, which share what a step varies by"
        elif name == "replica" and size > 1 and not shape.is_piped:
            continue
        elif name in ("persistent", "transient") and size > 1:
            found = of_gpu(math.sqrt(max(part.variance, 0.0)), size)
            if found is None:
                continue
            scale, factor = _scale(part, found), factor * found.group_to_gpu
            why += f"; of one GPU, of which the slowest of {size} makes the rank"
        estimate = cv_estimate(part.variance, part.ends, part.method)
        law = (family.chosen, family.skew) if _is_step(name) else ("normal", None)
        values.append(_proposed(path, estimate, scale, law, why))
    values += _spikes(fitted, size)
    values += _memory(fitted, size, shape)
    return Sources(values=values, group_to_gpu=factor)


_WHY = {
    "persistent": "stays with a rank over the steps, of those that do not stand apart",
    "node": "stays with the ranks of a node together",
    "transient": "of a rank from step to step, beside what all share",
    "replica": "shared by the ranks of a replica in a step",
    "common": "shared by all ranks in a step",
}


def _is_step(name: str) -> bool:
    return name in ("transient", "replica")


def _together(part: Part, other: Part | None) -> Part:
    if other is None:
        return part
    ends = type(part.ends)(part.ends.low + other.ends.low, part.ends.high + other.ends.high)
    return Part(part.variance + other.variance, ends, part.dof, part.method)


def _scale(part: Part, found: OfGpu) -> float:
    group = math.sqrt(max(part.variance, 0.0))
    return found.cv / group if group > 0 else 1.0


def _proposed(
    path: str, estimate: Estimate, scale: float, law: tuple[str, float | None], why: str
) -> ProposedValue:
    low = None if estimate.low is None else rounded(estimate.low * scale)
    high = None if estimate.high is None else rounded(estimate.high * scale)
    if estimate.value <= 0:
        return ProposedValue(path=path, value=None, low=0.0, high=high, reason=f"none seen: {why}")
    family, skew = law
    value = law_document(family, estimate.value * scale, skew)
    if estimate.value * scale > MAX_CV:
        why += f"; {estimate.value * scale:.3g} was found, the model takes {MAX_CV:g} at most"
    return ProposedValue(path=path, value=value, low=low, high=high, reason=f"cv: {why}")


def _spikes(fitted: Fitted, size: int) -> list[ProposedValue]:
    found = fitted.spikes.found
    if found is None:
        return []
    # One GPU of a group in lockstep is enough to hold all of it up.
    probability = -math.expm1(math.log1p(-found.probability.value) / size)
    return [
        ProposedValue(
            path="variability.spikes",
            value={
                "probability": rounded(probability),
                "slowdown": rounded(max(found.slowdown.value, 1.0)),
            },
            low=found.probability.low,
            high=found.probability.high,
            reason=f"{found.num_spikes} single cells far above all others of their rank; low and "
            "high are of the probability per rank and step",
        )
    ]


def _memory(fitted: Fitted, size: int, shape: Shape) -> list[ProposedValue]:
    lag = fitted.split.autocorrelation.lag_1
    in_replica = size > 1 and not shape.is_piped
    if lag is None or in_replica or fitted.split.cv("transient") <= 0:
        return []
    if lag.low is not None and lag.low <= 0:
        why = "of adjacent steps, not told from none"
        return [_memory_value(0.0, lag, why)]
    return [_memory_value(min(max(lag.value, 0.0), 0.999), lag, "of adjacent steps of a rank")]


def _memory_value(value: float, lag: Estimate, why: str) -> ProposedValue:
    return ProposedValue(
        path="variability.autocorrelation",
        value=rounded(value),
        low=lag.low,
        high=lag.high,
        reason=why,
    )


class SlowKind(Struct, frozen=True, kw_only=True):
    """Slow GPUs of one speed; `stage` where they sit in a pipeline."""

    count: int
    speed_fraction: float
    stage: int | None


def slow_kinds(
    ratios: list[tuple[float, int | None]], max_groups: int, group_to_gpu: float
) -> list[SlowKind]:
    """Slow ranks, (time by nominal, stage) each, as at most so many groups.

    One GPU is counted for each rank: in lockstep one slow GPU holds its group up, and at random
    places more of them would hold up more groups. Speeds within 2 % are one group, with the mean
    of its times; where there are still too many the slowest keep theirs, since all wait for them.
    """
    found: list[SlowKind] = []
    places = sorted({-1 if stage is None else stage for _, stage in ratios})
    each = max(max_groups // max(len(places), 1), 1)
    for place in places:
        times = np.sort(
            [ratio for ratio, stage in ratios if (-1 if stage is None else stage) == place]
        )
        for part in _clusters(times, each):
            speed = min(1 / (float(part.mean()) * group_to_gpu), 1.0)
            found.append(
                SlowKind(
                    count=len(part),
                    speed_fraction=rounded(speed),
                    stage=None if place < 0 else place,
                )
            )
    return sorted(found, key=lambda kind: kind.speed_fraction)


def _clusters(times: np.ndarray, most: int) -> list[np.ndarray]:
    """Ascending times, cut at relative gaps above 2 %: at the last of them where there are more."""
    wide = np.flatnonzero(np.diff(np.log(times)) > SAME_SPEED)
    kept = wide[max(len(wide) - most + 1, 0) :]
    return list(np.split(times, kept + 1))


def slow_ratios(fitted: Fitted, *, with_stages: bool) -> list[tuple[float, int | None]]:
    """Time by nominal of the ranks that are slow all the time, and the number of their stage."""
    return [
        (
            time_ratio(fitted, one.position),
            int(fitted.of_stage[one.position]) if with_stages else None,
        )
        for one in fitted.apart
        if one.kind == "slow"
    ]
