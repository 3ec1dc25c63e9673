"""The numbers of a scenario, and the ends between which each is moved."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.model.decoding import escaped
from service.model.fields import Scenario
from service.model.parts.pipeline import MAX_STAGES
from service.model.paths import REFUSED, leaf_of
from service.model.problems import InvalidScenario, Problem
from service.model.questions.moved_columns import (
    Number,
    bounds_of,
    check_path,
    holds_number,
    step_of_whole,
)
from service.model.scenario import full

STAGES = "pipeline.stages"
LISTS_OF_STAGES = ("pipeline.forward_ms", "pipeline.backward_ms", "pipeline.stage_weights")
Interval = tuple[Number, Number]

# What products of floats are off by: 10 x 1.1 is 11.000000000000002, but no more than 11.
ROUND_OFF = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A number of a scenario with its ends; None where there is none beside its value."""

    path: str
    value: Number
    low: Number | None
    high: Number | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmoved:
    """An input that stays as it is, and why."""

    path: str
    value: Any
    code: str
    detail: str


def inputs_of(
    scenario: Scenario, intervals: Mapping[str, Interval], share: float
) -> tuple[list[Input], list[Unmoved]]:
    """All numbers of the scenario: those that can be moved, and those that cannot.

    Raises InvalidScenario with pointers `/intervals/…` for a path that is no number of it and for
    ends that are out of the field's bounds or in the wrong order.
    """
    _check(scenario, intervals)
    inputs, unmoved = [], []
    for path, value in _numbers(full(scenario), ""):
        if path in REFUSED:
            detail = "it is part of the question, not of the job"
            unmoved.append(Unmoved(path=path, value=value, code="refused_path", detail=detail))
        elif (said := _no_number(path, value)) is not None:
            unmoved.append(Unmoved(path=path, value=value, code="not_numeric", detail=said))
        else:
            step = step_of_whole(path, scenario)
            # Almost no other number of stages divides the GPUs.
            interval = intervals.get(path) or (_near(scenario) if path == STAGES else None)
            found = _input(path, value, interval, share, step)
            if found.low is None and found.high is None:
                unmoved.append(_stuck(path, value, share))
            else:
                inputs.append(found)
    return inputs, unmoved


def _no_number(path: str, value: Any) -> str | None:
    """Why it is no number that could be moved; None where it is one."""
    if isinstance(value, str):
        return f"it is {value!r}, no number"
    if isinstance(value, list):
        each = ", one for each stage" if path in LISTS_OF_STAGES else ""
        return f"it is a list of {len(value)} numbers{each}"
    return None


def _near(scenario: Scenario) -> Interval:
    """The nearest numbers of stages below and above with whole replicas; its own where none is."""
    own = 1 if scenario.pipeline is None else scenario.pipeline.stages
    used = scenario.num_gpus - scenario.num_evicted_gpus
    groups = used // scenario.tensor_parallel_size
    below = (stages for stages in range(own - 1, 0, -1) if groups % stages == 0)
    above = (stages for stages in range(own + 1, MAX_STAGES + 1) if groups % stages == 0)
    return next(below, own), next(above, own)


def _input(path: str, value: Number, interval: Interval | None, share: float, step: int) -> Input:
    low, high = interval or (value * (1 - share), value * (1 + share))
    least, greatest = bounds_of(path)
    if step:
        # Away from the value, so that a small number moves too.
        low = math.floor(low / step * (1 + ROUND_OFF)) * step
        high = math.ceil(high / step * (1 - ROUND_OFF)) * step
        least, greatest = math.ceil(least / step) * step, math.floor(greatest / step) * step
    low, high = (min(max(end, least), greatest) for end in (low, high))
    return Input(
        path=path,
        value=value,
        low=None if low == value else low,
        high=None if high == value else high,
    )


def _stuck(path: str, value: Number, share: float) -> Unmoved:
    detail = f"it is {value:.12g}, of which {100 * share:.3g} % is nothing: give an interval"
    if value != 0:
        detail = f"it is {value:.12g}, and its interval has no other value"
    return Unmoved(path=path, value=value, code="no_other_value", detail=detail)


def _numbers(document: Any, above: str) -> Iterator[tuple[str, Any]]:
    """Paths and values of the leaves that may be numbers, in the order of the fields."""
    places = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in places:
        path = f"{above}{name}"
        leaf = leaf_of(path)
        if leaf is not None:
            if (holds_number(leaf) or leaf.dtype == "object") and value is not None:
                yield path, value
        elif isinstance(value, dict | list):
            yield from _numbers(value, f"{path}.")


def _check(scenario: Scenario, intervals: Mapping[str, Interval]) -> None:
    problems: list[Problem] = []
    for path, (low, high) in intervals.items():
        pointer = f"/intervals/{escaped(path)}"
        try:
            check_path(scenario, path, pointer=pointer)
        except InvalidScenario as error:
            problems.extend(error.problems)
            continue
        least, greatest = bounds_of(path)
        if not least <= low <= high <= greatest:
            detail = (
                f"{low:.12g} to {high:.12g} is refused: {path} goes from {least:.12g} "
                f"to {greatest:.12g}"
            )
            problems.append(Problem(pointer=pointer, code="out_of_range", detail=detail))
    if problems:
        raise InvalidScenario(problems)
