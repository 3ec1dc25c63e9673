"""Whether computation and communication really overlap, by the best that the timings tell."""

import numpy as np
from msgspec.structs import replace

from service.calibration.findings import OverlapAudit
from service.calibration.job_size import job_size
from service.calibration.options import CalibrationOptions
from service.calibration.overlap_arithmetic import audit_arithmetic
from service.calibration.refusals import refused
from service.calibration.step_arithmetic import StepArithmetic
from service.calibration.timings import FloatArray, Timings
from service.calibration.trace_overlap import audit_traces
from service.calibration.trace_overlap_interval import FEWEST_STEPS, standard_error

_SAME_RANK = 0.9
"""Share of steps in which one rank must come last for its communication to hold no waiting."""


def audit_of(timings: Timings, options: CalibrationOptions) -> OverlapAudit | None:
    """The audit by traces where there are collectives, else by the arithmetic of steps.

    None where the timings have no communication, no step time, or fewer than three whole steps.
    Raises `TimingsRefusedError` for times that no step has.
    """
    if timings.collectives is not None and len(timings.collectives.step):
        return audit_traces(timings, timings.collectives, options)
    observed = arithmetic_of(timings, options)
    if observed is None:
        return None
    audit = audit_arithmetic(observed)
    assumption = job_size(timings, options).assumption
    if observed.communication_includes_wait is None or assumption is None:
        return audit
    return replace(audit, reasons=[*audit.reasons, assumption])


def audit_alone(timings: Timings, options: CalibrationOptions) -> OverlapAudit:
    """The audit of timings that may be too few to fit anything; raises where they tell nothing."""
    audit = audit_of(timings, options)
    if audit is None:
        raise refused(
            "missing_column",
            "whether communication overlaps is told by traces of steps that communicate, or by a "
            f"table with communication_ms and step_ms of at least {FEWEST_STEPS} whole steps",
        )
    return audit


def arithmetic_of(timings: Timings, options: CalibrationOptions) -> StepArithmetic | None:
    """Means over steps in ms, each of the rank that has most to do before the collective.

    That rank differs from step to step. Communication is that of the rank that is in it for the
    shortest time, which is an upper bound of the transfer: with several collectives in a step each
    may have another last rank. Only where one rank is the last of nearly all steps, and all ranks
    are there, does it hold no waiting.
    """
    communication, step = timings.communication_ms, timings.step_ms
    if communication is None or step is None:
        return None
    load = np.zeros_like(step) if timings.load_ms is None else timings.load_ms
    whole = ~np.any(np.isnan(timings.compute_ms + load + communication + step), axis=1)
    if np.sum(whole) < FEWEST_STEPS:
        return None
    own = (load + timings.compute_ms)[whole]
    slowest = np.argmax(own, axis=1)
    shortest = np.argmin(communication[whole], axis=1)
    transfer = np.min(communication[whole], axis=1)
    if not np.any(transfer):
        return None

    def of_slowest(values: FloatArray) -> FloatArray:
        return np.take_along_axis(values[whole], slowest[:, np.newaxis], axis=1)[:, 0]

    series = {
        "load": of_slowest(load),
        "compute": of_slowest(timings.compute_ms),
        "communication": transfer,
        "step": of_slowest(step),
    }
    means = {f"{name}_ms": float(np.mean(values)) for name, values in series.items()}
    errors = {f"{name}_sd_ms": standard_error(values) for name, values in series.items()}
    holds_no_wait = _all_are_there(timings, options) and _is_always_last(slowest, shortest)
    return StepArithmetic(
        **means,
        **errors,
        load_is_prefetched=options.load_is_prefetched,
        communication_includes_wait=False if holds_no_wait else None,
        no_communication_step_ms=options.no_communication_step_ms,
        overlap_off_step_ms=options.overlap_off_step_ms,
        isolated_communication_ms=options.isolated_communication_ms,
        confidence=options.confidence,
    )


def _all_are_there(timings: Timings, options: CalibrationOptions) -> bool:
    return timings.num_ranks >= max(2, job_size(timings, options).num_ranks)


def _is_always_last(slowest: np.ndarray, shortest: np.ndarray) -> bool:
    """Whether one rank has most to do and waits least in nearly all steps."""
    rank = int(np.bincount(slowest).argmax())
    return bool(np.mean((slowest == rank) & (shortest == rank)) >= _SAME_RANK)
