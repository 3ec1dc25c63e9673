"""The overlap audit from a step's phases, and from runs in which something was switched off."""

from typing import Final

from service.calibration.findings import Estimate, HiddenShare, OverlapAudit, Verdict
from service.calibration.overlap_bounds import (
    LEAST_SHARE,
    MOST_CONTENTION,
    Bounds,
    Figure,
    Known,
    bounds_of,
    known_of,
    verdict_of,
    z_of,
)
from service.calibration.overlap_experiments import experiments_for
from service.calibration.step_arithmetic import StepArithmetic, refuse_contradictions

__all__ = ["LEAST_SIGNAL", "StepArithmetic", "audit_arithmetic"]

LEAST_SIGNAL: Final = 10.0
"""Transfer in standard errors below which the noise decides: 10 are an interval of +-16 points."""


def audit_arithmetic(observed: StepArithmetic) -> OverlapAudit:
    """Bounds of the hidden share, the verdict, and what would settle it.

    The truth lies inside of the interval at the stated confidence, whatever waiting, loading and
    contention are (`overlap_bounds`). Raises `TimingsRefusedError` for figures that no step has.
    """
    refuse_contradictions(observed)
    known = known_of(observed)
    bounds = bounds_of(observed)
    verdict = _verdict(bounds)
    is_changed = known.exposed is not None or known.hidden is not None
    return OverlapAudit(
        verdict=verdict,
        route="interventions" if is_changed else "arithmetic",
        hidden_share=HiddenShare(low=bounds.share.low, high=bounds.share.high, naive_ratio=None),
        communication_ms=_transfer(known, bounds),
        wait_ms=_wait(observed, known),
        exposed_ms=_exposed(known, observed.confidence),
        num_collectives_per_step=None,
        reasons=[*_of_verdict(verdict, bounds), *_of_figures(observed, known)],
        experiments=experiments_for(observed, bounds),
    )


def _is_drowned(bounds: Bounds) -> bool:
    return bounds.transfer_ms.high < LEAST_SIGNAL * bounds.noise_ms


def _verdict(bounds: Bounds) -> Verdict:
    if _is_drowned(bounds) or not bounds.agree:
        return "cannot_tell"
    return verdict_of(bounds.share.low, bounds.share.high)


def _transfer(known: Known, bounds: Bounds) -> Estimate:
    low, high = bounds.transfer_ms
    if not known.transfer:
        return Estimate(
            value=known.transfer_at_most.value, low=None, high=high, method="upper_bound_with_wait"
        )
    # The isolated one, or of two runs, or in the step of the rank that comes last
    value = min(max(known.transfer[0].value, low), high)
    return Estimate(value=value, low=low, high=high, method="step_arithmetic")


def _wait(observed: StepArithmetic, known: Known) -> Estimate | None:
    """What communication in the step takes longer than alone; of the rank that was timed."""
    if observed.communication_includes_wait is False or not known.transfer:
        return None
    transfer, in_step = known.transfer[0], known.transfer_at_most
    wait = Figure(in_step.value - transfer.value, (in_step.sd**2 + transfer.sd**2) ** 0.5)
    return _estimate(wait, observed.confidence, "in_step_minus_isolated")


def _exposed(known: Known, confidence: float) -> Estimate | None:
    if known.exposed is None:
        return None
    return _estimate(known.exposed, confidence, "step_minus_no_communication_step")


def _estimate(figure: Figure, confidence: float, method: str) -> Estimate:
    z = z_of(confidence)
    low, value, high = (max(0.0, part) for part in (figure.low(z), figure.value, figure.high(z)))
    return Estimate(value=value, low=low, high=high, method=method)


def _of_verdict(verdict: Verdict, bounds: Bounds) -> list[str]:
    low, high = (100 * end for end in bounds.share)
    between = f"between {low:.0f} and {high:.0f} % of the transfer is hidden"
    found = []
    if not bounds.agree:
        found.append(
            "the figures contradict one another by more than their noise (runs of different "
            "sizes, another rank's step, or a collective that was timed under other conditions): "
            "nothing is concluded from them"
        )
    elif verdict == "overlaps":
        found.append(f"{between}, which is above {100 * LEAST_SHARE:.0f} %")
    elif verdict == "does_not_overlap":
        found.append(f"{between}, which is below {100 * LEAST_SHARE:.0f} %")
    else:
        found.append(f"{between}: these figures allow both")
    if _is_drowned(bounds):
        found.append(
            f"communication takes at most {bounds.transfer_ms.high:.4g} ms, less than "
            f"{LEAST_SIGNAL:.0f} standard errors of {bounds.noise_ms:.3g} ms: the noise decides"
        )
    return found


def _of_figures(observed: StepArithmetic, known: Known) -> list[str]:
    found = [_of_sum(observed, known), *_of_loading(observed)]
    if not known.transfer:
        found.append(
            f"the {observed.communication_ms:g} ms of communication may hold waiting for later "
            "ranks, so the transfer is shorter than that by an unknown time; the rank that comes "
            "last waits for nobody"
        )
    if known.exposed is not None:
        found.append(
            f"without synchronisation the step is {known.exposed.value:.4g} ms shorter: that much "
            "communication was exposed, if both are of the slowest rank; otherwise its waiting "
            "lies in the difference and the share is too low"
        )
    if known.hidden is not None:
        found.append(
            f"with overlap switched off the step is {known.hidden.value:.4g} ms longer: that much "
            "was hidden, less what compute gets longer beside communication"
        )
    if known.exposed is not None or known.hidden is not None:
        found.append(
            "compute beside communication takes longer; up to "
            f"{100 * MOST_CONTENTION:.0f} % of the overlapped time is allowed for"
        )
    return found


def _of_sum(observed: StepArithmetic, known: Known) -> str:
    exposed = known.exposed_at_most.value
    if exposed <= 0:
        return "the step takes no longer than what stands in it anyway: nothing is exposed"
    parts = "loading and compute" if observed.load_is_serial else "compute"
    return (
        f"the step takes {exposed:.4g} ms longer than {parts}: at most that much communication is "
        "exposed, and less by as much as waiting, optimizer and gaps take"
    )


def _of_loading(observed: StepArithmetic) -> list[str]:
    if observed.load_is_serial:
        return []
    runs = "runs" if observed.load_is_prefetched else "may run"
    reason = (
        f"loading {runs} beside the step before, so its {observed.load_ms:g} ms cannot be told "
        "from hidden communication: they are left out of the sum"
    )
    return [reason]
