"""The overlap audit from traces: what of the transfer really lies beside compute.

On the rank that comes last to a collective nothing is waiting, and what it computes during the
transfer is hidden. Two readings of "the rank that comes last" are taken and both lie inside of the
interval: of every collective its own, and of a step the one whose compute ends last (the least
exposed one, since its end is what the step waits for). Where ranks took part in different
collectives no rank is the last of all, and every rank's share lies inside.

Where ranks are missing, with M the sum of the shortest seen kernels, G what of it is exposed on the
least exposed seen rank, and A the transfer, A_least <= A <= M: at most min(A, G) is exposed (an
unseen rank's compute ends later or it would not matter), and at least G - 2 (M - A), once M - A for
windows that are too long and once for compute that may end as much later. The share 1 - exposed / A
has both of its ends at A_least. A run without synchronisation says what is exposed whoever was
profiled (`trace_overlap_no_sync`).
"""

from typing import NamedTuple

import numpy as np

from service.calibration.findings import Estimate, Experiment, HiddenShare, OverlapAudit, Verdict
from service.calibration.job_size import JobSize, job_size
from service.calibration.options import CalibrationOptions
from service.calibration.overlap_bounds import LEAST_SHARE, verdict_of
from service.calibration.overlap_experiments import EXPERIMENTS, Name
from service.calibration.timings import Collectives, FloatArray, Timings
from service.calibration.trace_overlap_interval import (
    FEWEST_STEPS,
    METHOD,
    mean_estimate,
    share_reach,
)
from service.calibration.trace_overlap_no_sync import (
    Ends,
    ends_without_synchronisation,
    narrowed,
)
from service.calibration.trace_overlap_transfers import Transfers, transfers_of

_NARROW = 0.1
"""Width of an interval of the hidden share from which more steps are worth their trouble."""
_MOSTLY_HIDDEN = 0.5


class _Reading(NamedTuple):
    """Least and most that is exposed of a transfer, per step in ms."""

    exposed_at_least: FloatArray
    exposed_at_most: FloatArray
    transfer: FloatArray


def audit_traces(
    timings: Timings, collectives: Collectives, options: CalibrationOptions
) -> OverlapAudit:
    """The audit of collectives (not none) of profiled ranks, at the confidence of the options."""
    size = job_size(timings, options)
    every = transfers_of(collectives, size.num_ranks)
    found = _seen_whole(every)
    least = np.maximum(_least(found.certain_ms), options.isolated_communication_ms or 0.0)
    readings = _readings(found, least)
    low, high = _ends(timings, found, least, readings, options)
    verdict = verdict_of(low, high) if len(found.steps) >= FEWEST_STEPS else "cannot_tell"
    return OverlapAudit(
        verdict=verdict,
        route="traces",
        hidden_share=HiddenShare(low=low, high=high, naive_ratio=found.naive_ratio),
        communication_ms=_communication(found, least, options.confidence),
        wait_ms=_wait(found, options.confidence),
        exposed_ms=_exposed(found, readings, options.confidence),
        num_collectives_per_step=int(np.sum(found.num_kernels))
        / int(np.sum(~np.isnan(found.transfer_ms))),
        reasons=[
            *_reasons(found, verdict, Ends(low, high)),
            *_of_the_ranks(timings, found, size),
            *_of_no_sync_run(found, options),
            *_steps_left_out(len(every.steps) - len(found.steps)),
        ],
        experiments=_experiments(found, options, high - low),
    )


def _least(values: FloatArray) -> FloatArray:
    return np.asarray(np.nanmin(values, axis=1), np.float64)


def _seen_whole(found: Transfers) -> Transfers:
    """The steps of which every collective was seen on all of its ranks, if there are any."""
    whole = found.num_partly_seen == 0
    return found.only(whole) if np.sum(whole) >= FEWEST_STEPS else found


def _is_partly_seen(found: Transfers) -> bool:
    return bool(np.any(found.num_partly_seen))


def _readings(found: Transfers, least: FloatArray) -> list[_Reading]:
    most = _least(found.transfer_ms)
    if _is_partly_seen(found):
        smallest = np.minimum(least, most)
        exposed = _least(found.exposed_ms)
        at_least = np.clip(exposed - 2 * (most - smallest), 0.0, smallest)
        return [_Reading(at_least, np.minimum(exposed, smallest), smallest)]
    if np.all(found.is_symmetric):
        both = (_least(found.exposed_ms), found.last_exposed_ms)
        return [_Reading(exposed, exposed, most) for exposed in both]
    pairs = zip(found.exposed_ms.T, found.transfer_ms.T, strict=True)
    return [
        _Reading(exposed[known], exposed[known], transfer[known])
        for exposed, transfer in pairs
        for known in [~np.isnan(transfer)]
    ]


def _interval(readings: list[_Reading], confidence: float) -> tuple[float, float]:
    """Hull of the readings' intervals, inside of 0 and 1; all of it where nothing is known."""
    lows, highs = [], []
    for reading in readings:
        if float(np.sum(reading.transfer)) <= 0:
            return 0.0, 1.0
        share, reach = share_reach(reading.exposed_at_most, reading.transfer, confidence)
        lows.append(1 - share - reach)
        share, reach = share_reach(reading.exposed_at_least, reading.transfer, confidence)
        highs.append(1 - share + reach)
    return min(1.0, max(0.0, min(lows))), max(0.0, min(1.0, max(highs)))


def _ends(
    timings: Timings,
    found: Transfers,
    least: FloatArray,
    readings: list[_Reading],
    options: CalibrationOptions,
) -> Ends:
    """Of traces alone where they suffice; else also of a run without synchronisation.

    Two intervals that shall both hold leave half of the doubt to each (Bonferroni).
    """
    if not _is_partly_seen(found) or options.no_communication_step_ms is None:
        return Ends(*_interval(readings, options.confidence))
    confidence = (1 + options.confidence) / 2
    most = _least(found.transfer_ms)
    other = ends_without_synchronisation(
        timings,
        found.steps,
        options.no_communication_step_ms,
        (np.minimum(least, most), most),
        confidence,
    )
    return narrowed(Ends(*_interval(readings, confidence)), other)


def _communication(found: Transfers, least: FloatArray, confidence: float) -> Estimate:
    if not (_is_partly_seen(found) or np.all(found.is_symmetric)):
        # The step waits for those of different groups that transfer for longest.
        return mean_estimate(np.nanmax(found.transfer_ms, axis=1), confidence)
    most = mean_estimate(np.nanmean(found.transfer_ms, axis=1), confidence)
    if not _is_partly_seen(found):
        return most
    lowest = min(float(np.mean(least)), most.value)
    return Estimate(
        value=most.value, low=lowest or None, high=most.high, method="upper_bound_of_seen_ranks"
    )


def _wait(found: Transfers, confidence: float) -> Estimate | None:
    if _is_partly_seen(found):
        return None
    return mean_estimate(np.nanmean(found.duration_ms - found.transfer_ms, axis=1), confidence)


def _exposed(found: Transfers, readings: list[_Reading], confidence: float) -> Estimate:
    """Hull over the readings; of partly seen collectives the most of any possible transfer."""
    most = [mean_estimate(reading.exposed_at_most, confidence) for reading in readings]
    if _is_partly_seen(found):
        most = [mean_estimate(_least(found.exposed_ms), confidence)]
    least = [mean_estimate(reading.exposed_at_least, confidence) for reading in readings]
    lows = [estimate.low for estimate in least if estimate.low is not None]
    highs = [estimate.high for estimate in most if estimate.high is not None]
    return Estimate(
        value=most[0].value,
        low=min(lows, default=None),
        high=max(highs, default=None),
        method=METHOD,
    )


def _reasons(found: Transfers, verdict: Verdict, share: Ends) -> list[str]:
    low, high = share
    between = f"between {100 * low:.1f} and {100 * high:.1f} % of the transfer lies beside compute"
    limit = f"{100 * LEAST_SHARE:.0f} %"
    said = {
        "overlaps": f"{between}, which is above {limit}",
        "does_not_overlap": f"{between}, which is below {limit}",
        "cannot_tell": f"{between}: the traces allow both",
    }
    reasons = [said[verdict]]
    if len(found.steps) < FEWEST_STEPS:
        reasons.append(
            f"there are {len(found.steps)} whole steps: fewer than {FEWEST_STEPS} do not tell how "
            "much steps differ"
        )
    waiting = float(np.nansum(found.duration_ms - found.transfer_ms))
    total = float(np.nansum(found.duration_ms))
    if waiting > 0:
        reasons.append(
            f"{100 * waiting / total:.0f} % of the time in communication kernels is waiting for "
            f"later ranks; the ratio {100 * found.naive_ratio:.0f} % of compute beside it to all "
            "of it counts that as communication"
        )
    if high > _MOSTLY_HIDDEN:
        reasons.append(
            "compute beside communication takes longer (published mean 19 %): hidden does not "
            "mean free; only a run without synchronisation tells"
        )
    return reasons


def _of_the_ranks(timings: Timings, found: Transfers, size: JobSize) -> list[str]:
    """Whether those that were profiled are all."""
    if _is_partly_seen(found):
        of_all = str(size.num_ranks) if size.is_said else f"at least {size.num_ranks}"
        why = (
            f"{timings.num_ranks} of {of_all} ranks were profiled, or their collectives do not "
            f"match: of {int(np.sum(found.num_partly_seen))} collectives the rank that came last "
            "may not be among them, so their shortest kernel is only an upper bound of the transfer"
        )
        return [why]
    reasons = []
    if size.assumption is not None:
        reasons.append(size.assumption)
    if not np.all(found.is_symmetric):
        reasons.append(
            "ranks took part in different collectives: the share of every rank is inside"
        )
    return reasons


def _of_no_sync_run(found: Transfers, options: CalibrationOptions) -> list[str]:
    if not _is_partly_seen(found) or options.no_communication_step_ms is None:
        return []
    without = f"the step of {options.no_communication_step_ms:g} ms without synchronisation"
    rule = "where it contradicts the traces, both are inside"
    return [f"{without} says how much is exposed whoever was profiled; {rule}"]


def _steps_left_out(num_steps: int) -> list[str]:
    if not num_steps:
        return []
    return [f"{num_steps} steps in which not all ranks were seen are left out"]


def _experiments(found: Transfers, options: CalibrationOptions, width: float) -> list[Experiment]:
    names: list[Name] = []
    if _is_partly_seen(found):
        names.append("profile_all_ranks")
        if options.isolated_communication_ms is None:
            names.append("isolated_collective")
    elif width > _NARROW:
        names.append("more_steps")
    if options.no_communication_step_ms is None:
        names.append("no_sync_run")
    names.append("throttled_bandwidth")
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    return [known[name] for name in names]
