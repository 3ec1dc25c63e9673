"""Whether the units that a source names can be those of its numbers."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from service.calibration.refusals import Fault, TimingsRefusedError
from service.calibration.timings import FloatArray, Timings

# A step of training: not under the time of a kernel's launch, nor over a working day's half.
_SHORTEST_MS: Final = 1e-3
_LONGEST_MS: Final = 4 * 3_600_000.0
# A thousandfold mistake shows in seconds above it, and in microseconds below it.
_MOST_S: Final = 100.0
_LEAST_US: Final = 100.0
# A thousandfold mistake between two columns: compute is neither so small a part of the step, nor
# so much more than it.
_SMALLEST_PART: Final = 0.005
_LARGEST_PART: Final = 20.0


def refuse_units(timings: Timings, units: Mapping[str, str]) -> None:
    """Refuse times that no step has; `units` names the unit of a phase in the files.

    Raises TimingsRefusedError with the medians and the rule.
    """
    faults = []
    medians = {"compute": _median(timings.compute_ms), "step": _median(timings.step_ms)}
    for phase, median_ms in medians.items():
        reason = None if median_ms is None else _implausible(phase, median_ms, units.get(phase))
        if reason is not None:
            faults.append(reason)
    faults += _against_step(timings, medians)
    if faults:
        raise TimingsRefusedError(
            *(Fault(code="implausible_units", detail=detail) for detail in faults)
        )


def _implausible(phase: str, median_ms: float, unit: str | None) -> str | None:
    if unit == "s" and median_ms > _MOST_S * 1e3:
        return (
            f"{phase}_s has the median {median_ms / 1e3:g}, over {_MOST_S:g} s: are these ms? Name "
            f"it {phase}_ms; if they are seconds, give them times 1000 as {phase}_ms"
        )
    if unit == "us" and median_ms < _LEAST_US / 1e3:
        return (
            f"{phase}_us has the median {median_ms * 1e3:g}, under {_LEAST_US:g} us: are these ms "
            f"or s? If they are microseconds, give them divided by 1000 as {phase}_ms"
        )
    if median_ms < _SHORTEST_MS:
        return f"{phase} has the median {median_ms:g} ms, under a microsecond"
    if median_ms > _LONGEST_MS:
        return f"{phase} has the median {median_ms:g} ms, over {_LONGEST_MS / 3.6e6:g} hours"
    return None


def _against_step(timings: Timings, medians: Mapping[str, float | None]) -> list[str]:
    compute_ms, step_ms = medians["compute"], medians["step"]
    if compute_ms is None or step_ms is None:
        return []
    found = [f"compute has the median {compute_ms:g} ms, step {step_ms:g} ms"]
    parts = timings.load_ms, timings.communication_ms
    together_ms = compute_ms + sum(_median(part) or 0.0 for part in parts)
    if together_ms < _SMALLEST_PART * step_ms:
        found.append(f"all phases are under {_SMALLEST_PART:.1%} of the step: other units?")
    elif compute_ms > _LARGEST_PART * step_ms:
        found.append(f"compute is over {_LARGEST_PART:g} times the step: other units?")
    else:
        return []
    return ["; ".join(found)]


def _median(values: FloatArray | None) -> float | None:
    """Of the known cells; of a part of the columns where there are very many."""
    if values is None:
        return None
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
