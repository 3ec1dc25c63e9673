"""What a step waits for its data, where ranks load differently.

The model has one load for all ranks, before their compute. So the load that it needs is what
loading makes a step longer by, the slowest rank's compute aside:

    mean over steps of max over ranks (load + compute) - max over ranks (compute)

A rank that loads slowly but computes fast holds nobody up, and one that does both slowly holds
everybody up: neither the mean nor the median rank's load tells that.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from service.calibration.findings import Estimate, Remark, Unknown
from service.calibration.gaps import mean_over_steps
from service.calibration.observed import median_of
from service.calibration.outliers import limit_of
from service.calibration.timings import BoolArray, FloatArray, IntArray

MIN_COMPLETE = 10
"""Of fewer steps in which every rank is there the mean would be luck; then all steps are taken."""

MIN_SHARE = 0.01
"""Of compute: what ranks load differently by less is not worth a word."""

MAX_NAMED = 20
_WHAT_TO_DO = (
    "look at the storage, the CPUs and the number of loader workers of their hosts, and at the "
    "size of what they load"
)


class Loads(NamedTuple):
    """Load and compute in ms, (steps, ranks) with NaN, and the numbers of both.

    `is_alone`: held against no compute, since it runs beside the step before, or since a pipeline's
    pass begins when its first stage has its data: then the rank that loads longest counts.
    """

    load_ms: FloatArray
    compute_ms: FloatArray
    steps: IntArray
    ranks: IntArray
    is_alone: bool

    def of(self, steps: BoolArray, ranks: BoolArray) -> "Loads":
        """Some of the steps and ranks."""
        return self._replace(
            load_ms=self.load_ms[steps][:, ranks],
            compute_ms=self.compute_ms[steps][:, ranks],
            steps=self.steps[steps],
            ranks=self.ranks[ranks],
        )


class Loading(Struct, frozen=True, kw_only=True):
    """The load of a scenario, why, what is to be said of it and what is to be done."""

    load_ms: Estimate
    reason: str
    remarks: list[Remark]
    unknown: list[Unknown]


def loading_of(loads: Loads, confidence: float) -> Loading | None:
    """None where no two steps hold load and compute of a rank."""
    there: BoolArray = np.isfinite(loads.load_ms + loads.compute_ms)
    loads = loads._replace(
        load_ms=np.where(there, loads.load_ms, np.nan),
        compute_ms=np.where(there, loads.compute_ms, np.nan),
    )
    num_there = there.sum(axis=1)
    complete: BoolArray = num_there == len(loads.ranks)
    is_whole = int(complete.sum()) >= MIN_COMPLETE
    used: BoolArray = complete if is_whole else num_there > 0
    if used.sum() < 2:
        return None
    ranks: BoolArray = there[used].sum(axis=0) > 0
    loads = loads.of(used, ranks)
    reason = (
        "the longest loading of any rank"
        if loads.is_alone
        else "what a step waits for: load and compute of its last rank less its slowest compute"
    )
    reason += ", mean over steps"
    if not is_whole:
        reason += "; of the ranks that are there, since in hardly any step all are"
    found = mean_over_steps(_waits(loads), loads.steps, confidence)
    slow = _slow_ranks(loads)
    remarks = [*_slow(loads, slow, found.value), *_differing(loads, slow, found.value)]
    if remarks:
        reason += "; ranks load differently, so it holds at this size only"
    return Loading(
        load_ms=found, reason=reason, remarks=remarks, unknown=_unknown(loads.ranks[slow])
    )


def _ends(loads: Loads) -> FloatArray:
    """When each rank is there, counted from when all began to load; NaN where it is not known."""
    return loads.load_ms if loads.is_alone else loads.load_ms + loads.compute_ms


def _waits(loads: Loads) -> FloatArray:
    """(steps,) what loading makes each step longer by."""
    waits: FloatArray = np.nanmax(_ends(loads), axis=1)
    if not loads.is_alone:
        waits = waits - np.nanmax(loads.compute_ms, axis=1)
    return waits


def _slow_ranks(loads: Loads) -> BoolArray:
    """(ranks,) those whose loading is later than that of the others by more than chance."""
    middle = median_of(loads.load_ms, axis=1)[:, np.newaxis]
    late = median_of(loads.load_ms - middle, axis=0)
    spread = 1.4826 * float(np.median(np.abs(late - np.median(late))))
    slow: BoolArray = late > max(limit_of(len(late)) * spread, _enough(loads))
    return slow


def _enough(loads: Loads) -> float:
    return MIN_SHARE * float(np.nanmedian(loads.compute_ms))


def _slow(loads: Loads, slow: BoolArray, waited_ms: float) -> list[Remark]:
    """The ranks that load slower, by how much, and what to do about it."""
    if not slow.any():
        return []
    others_ms = float(np.nanmedian(loads.load_ms[:, ~slow]))
    medians = median_of(loads.load_ms, axis=0)
    latest = sorted(np.flatnonzero(slow).tolist(), key=lambda rank: -float(medians[rank]))
    named = []
    for rank in latest[:MAX_NAMED]:
        times = f", {medians[rank] / others_ms:.3g} times as long" if others_ms > 0 else ""
        named.append(f"rank {loads.ranks[rank]} loads {medians[rank]:.4g} ms{times}")
    return [
        Remark(
            code="slow_loading_ranks",
            detail=f"{'; '.join(named)}; the others load {others_ms:.4g} ms, and a step waits "
            f"{waited_ms:.4g} ms for its data: {_WHAT_TO_DO}",
        )
    ]


def _differing(loads: Loads, slow: BoolArray, waited_ms: float) -> list[Remark]:
    """Where the other ranks make a step wait for their data by turns."""
    others = loads.of(np.ones(len(loads.steps), dtype=np.bool_), ~slow)
    there: BoolArray = np.isfinite(others.load_ms).sum(axis=1) > 0
    others = others.of(there, np.ones(len(others.ranks), dtype=np.bool_))
    middle_ms = float(median_of(others.load_ms, axis=1).mean())
    of_others_ms = float(_waits(others).mean())
    if of_others_ms - middle_ms <= _enough(loads):
        return []
    last = np.nanargmax(_ends(others), axis=1)
    counts = np.bincount(last, minlength=len(others.ranks))
    most = int(counts.argmax())
    aside = " (the slow ones aside)" if slow.any() else ""
    return [
        Remark(
            code="load_differs",
            detail=f"a step waits {of_others_ms:.4g} ms for its data, though in a step the rank in "
            f"the middle loads {middle_ms:.4g} ms{aside}: ranks load slowly by turns, rank "
            f"{others.ranks[most]} comes last most often, in {counts[most] / len(last):.0%} of the "
            f"steps; the model has one load for all ranks, {waited_ms:.4g} ms at this size, and "
            "of more ranks the last one loads longer",
        )
    ]


def _unknown(slow: IntArray) -> list[Unknown]:
    if not len(slow):
        return []
    named = ", ".join(str(rank) for rank in slow[:MAX_NAMED])
    return [
        Unknown(
            path="variability.load",
            reason=f"ranks {named} load slower than the others, and the model has one load for all "
            "ranks",
            what_to_do=_WHAT_TO_DO,
        )
    ]
