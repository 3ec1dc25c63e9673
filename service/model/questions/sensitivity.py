"""How much the loss moves with each number of a scenario, one at a time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.problems import Problem
from service.model.questions.moved_columns import Move, Number, moved
from service.model.questions.sampling import (
    is_sampled,
    refuse_long_recursions,
    without_spread,
)
from service.model.questions.sensitivity_inputs import Input, Interval, Unmoved, inputs_of
from service.model.rules import describe_failure
from service.model.scenario import apply_overrides, decode_fields, full

SHARE = 0.1
"""Each number is moved by so much of itself, down and up."""
LOST = "gpu_hours_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One end of an input's interval; `lost` is NaN, with the reason, where a rule is broken."""

    value: Number
    lost: float
    reason: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What one input does to the loss.

    low, high   at the ends of its interval; None where the interval ends at its value
    change      GPU-hours: the greatest distance of an end's loss from that of the scenario
    elasticity  relative change of the loss over that of the input, between the ends; NaN where the
                scenario has none of either
    """

    path: str
    value: Number
    low: Moved | None
    high: Moved | None
    change: float
    elasticity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivities:
    """By falling change, then by path; and the inputs that could not be moved."""

    lost: float
    moved: tuple[Sensitivity, ...]
    unmoved: tuple[Unmoved, ...]


def sensitivity(
    scenario: Scenario, intervals: Mapping[str, Interval], *, share: float = SHARE
) -> Sensitivities:
    """Move each number of a sound scenario by `share` of itself, or to the ends of its interval.

    Whole numbers are rounded away from the value, and everything is kept within the field's
    bounds. Raises InvalidScenario with pointers `/intervals/…`, and for draws that are too many.
    """
    inputs, unmoved = inputs_of(scenario, intervals, share)
    # The scenario itself is a point among the others.
    moves: list[Move] = [("num_gpus", scenario.num_gpus)]
    moves += [
        (part.path, end) for part in inputs for end in (part.low, part.high) if end is not None
    ]
    (_, own), *ends = zip(moves, _evaluated(scenario, moves), strict=True)
    found = dict(ends)
    rows = []
    for part in inputs:
        low = None if part.low is None else found[part.path, part.low]
        high = None if part.high is None else found[part.path, part.high]
        reasons = [end.reason for end in (low, high) if end is not None]
        if None in reasons:
            rows.append(_row(part, low, high, own.lost))
        else:
            unmoved.append(_broken(part, reasons))
    rows.sort(key=lambda row: (-row.change, row.path))
    return Sensitivities(lost=own.lost, moved=tuple(rows), unmoved=tuple(unmoved))


def _evaluated(scenario: Scenario, moves: list[Move]) -> list[Moved]:
    columns = without_spread(moved(columns_of(scenario), moves), LOST)
    is_sampled(columns)
    refuse_long_recursions(columns)
    results = evaluate(columns, with_spread=False, with_causes=False, with_quantiles=False)
    ends = zip(moves, results.columns[LOST].tolist(), results.failure.tolist(), strict=True)
    return [
        Moved(
            value=value,
            lost=lost,
            reason=None if code == 0 else _reason(scenario, path, value, code),
        )
        for (path, value), lost, code in ends
    ]


def _reason(scenario: Scenario, path: str, value: Number, code: int) -> Problem:
    there = decode_fields(apply_overrides(full(scenario), {path: value}))
    return describe_failure(code, there)


def _broken(part: Input, reasons: list[Problem | None]) -> Unmoved:
    """Of an input neither end of which can be computed."""
    (reason, *_) = (reason for reason in reasons if reason is not None)
    return Unmoved(path=part.path, value=part.value, code=reason.code, detail=reason.detail)


def _row(part: Input, low: Moved | None, high: Moved | None, lost: float) -> Sensitivity:
    own = Moved(value=part.value, lost=lost)
    below = own if low is None or low.reason else low
    above = own if high is None or high.reason else high
    elasticity = math.nan
    if part.value and lost:
        slope = (above.lost - below.lost) / (above.value - below.value)
        elasticity = slope * part.value / lost
    return Sensitivity(
        path=part.path,
        value=part.value,
        low=low,
        high=high,
        change=max(abs(below.lost - lost), abs(above.lost - lost)),
        elasticity=elasticity,
    )
