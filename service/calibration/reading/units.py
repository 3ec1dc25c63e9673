"""Whether the units that a source names can be those of its numbers.

A mistake of a thousand shows in a median; refused is what cannot be, said what is hardly so.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from service.calibration.findings import Remark
from service.calibration.refusals import Fault, TimingsRefusedError
from service.calibration.timings import FloatArray, Timings

# A step of training: not under the time of a kernel's launch, nor over a working day's half.
_SHORTEST_MS: Final = 1e-3
_LONGEST_MS: Final = 4 * 3_600_000.0
# A thousandfold mistake shows in seconds above it, and in microseconds below it.
_MOST_S: Final = 100.0
_LEAST_US: Final = 100.0
# A thousandfold mistake between two columns: all phases are no such small part of the step, and
# none of them is so much more than it.
_SMALLEST_PART: Final = 0.005
_LARGEST_PART: Final = 20.0
# Compute that real jobs have, if hardly; and communication, where there is any.
_USUAL_LEAST_MS: Final = 1.0
_USUAL_MOST_MS: Final = 100_000.0
_USUAL_PART: Final = 0.001


def check_units(timings: Timings, units: Mapping[str, str]) -> list[Remark]:
    """Refuse times that no step has; remarks on those that few have.

    `units` names the unit of a phase in the files. Raises TimingsRefusedError with the medians and
    the rule.
    """
    medians = {
        phase: median_ms
        for phase, cells in (
            ("compute", timings.compute_ms),
            ("step", timings.step_ms),
            ("load", timings.load_ms),
            ("communication", timings.communication_ms),
        )
        if (median_ms := _median(cells)) is not None
    }
    faults = [
        reason
        for phase in ("compute", "step")
        if phase in medians
        and (reason := _implausible(phase, medians[phase], units.get(phase))) is not None
    ]
    faults += _against_step(medians)
    if faults:
        raise TimingsRefusedError(
            *(Fault(code="implausible_units", detail=detail) for detail in faults)
        )
    return [Remark(code="unusual_units", detail=detail) for detail in _unusual(medians)]


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


def _against_step(medians: Mapping[str, float]) -> list[str]:
    if "compute" not in medians or "step" not in medians:
        return []
    step_ms = medians["step"]
    phases = {phase: median_ms for phase, median_ms in medians.items() if phase != "step"}
    found = []
    if sum(phases.values()) < _SMALLEST_PART * step_ms:
        found.append(
            f"compute has the median {medians['compute']:g} ms, step {step_ms:g} ms; all phases "
            f"are under {_SMALLEST_PART:.1%} of the step: other units?"
        )
    found += [
        f"{phase} has the median {median_ms:g} ms, step {step_ms:g} ms; {phase} is over "
        f"{_LARGEST_PART:g} times the step: other units?"
        for phase, median_ms in phases.items()
        if median_ms > _LARGEST_PART * step_ms
    ]
    return found


def _unusual(medians: Mapping[str, float]) -> list[str]:
    found = []
    compute_ms = medians.get("compute")
    if compute_ms is not None and not _USUAL_LEAST_MS <= compute_ms <= _USUAL_MOST_MS:
        found.append(
            f"compute has the median {compute_ms:g} ms, where {_USUAL_LEAST_MS:g} to "
            f"{_USUAL_MOST_MS:g} ms are usual: is the unit right?"
        )
    # Where there is a step, this is refused.
    found += [
        f"{phase} has the median {medians[phase]:g} ms, over {_LARGEST_PART:g} times compute's "
        f"{compute_ms:g} ms: is the unit right?"
        for phase in ("load", "communication")
        if compute_ms is not None and medians.get(phase, 0.0) > _LARGEST_PART * compute_ms
    ]
    whole_ms, part_ms = medians.get("step", compute_ms), medians.get("communication")
    if whole_ms and part_ms and part_ms < _USUAL_PART * whole_ms:
        found.append(
            f"communication has the median {part_ms:g} ms, under {_USUAL_PART:.1%} of "
            f"{whole_ms:g} ms: is the unit right?"
        )
    return found


def _median(values: FloatArray | None) -> float | None:
    """Of the known cells; of a part of the columns where there are very many."""
    if values is None:
        return None
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
