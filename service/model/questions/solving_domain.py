"""Which values of an input can be computed: its bounds, and the rules across fields."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats, columns_of
from service.model.fields import Scenario, Strong
from service.model.plan_lengths import plan_steps, steps_where_simulated
from service.model.problems import InvalidScenario, Problem
from service.model.questions.moved_columns import (
    Number,
    bounds_of,
    check_path,
    moved,
    step_of_whole,
    value_of,
)
from service.model.questions.solving_range import End, Range
from service.model.rules import describe_failure, failures
from service.model.scenario import apply_overrides, decode_fields, full

PLAN_PATHS = ("pipeline.stages", "pipeline.microbatches", "pipeline.chunks_per_stage")
MOST_STEPS_OF_A_VALUE = 2_500
"""Of pipelines, a dozen or two of which are worked through for an answer."""
TOO_LONG = "too_long_at_once"
MOST_LISTED = 100_000
"""Up to so many whole numbers are each held against the rules."""


def range_of(
    scenario: Scenario, path: str, minimum: Number | None, maximum: Number | None
) -> Range:
    """The values at the path, within the field's bounds and those given, that break no rule.

    Raises InvalidScenario with pointers that begin with `/unknown`, or, where all values break a
    rule, with the fault of the scenario itself.
    """
    first, last = low, high = _ends(scenario, path, minimum, maximum)
    high = min(high, _most_with_work(scenario, path))
    base = columns_of(scenario)
    step = step_of_whole(path, scenario)
    if not step:
        low, high = float(low), float(high)
    else:
        low, high = -(-math.ceil(low) // step) * step, math.floor(high) // step * step
    if low > high:
        detail = f"between {first:.12g} and {last:.12g} there is no {path} that could be"
        raise InvalidScenario([Problem(pointer="/unknown", code="empty_range", detail=detail)])
    whole = Range(
        path=path,
        lowest=low,
        highest=high,
        step=step,
        below=_bound(path, low, "minimum"),
        above=_bound(path, high, "maximum"),
    )
    own = value_of(base, path)
    if own is not None and low <= own <= high:
        whole = replace(whole, own=own)
    return _sound(whole, scenario, base)


def _ends(
    scenario: Scenario, path: str, minimum: Number | None, maximum: Number | None
) -> tuple[Number, Number]:
    check_path(scenario, path, pointer="/unknown/path")
    low, high = bounds_of(path)
    problems = [
        Problem(
            pointer=f"/unknown/{name}",
            code="out_of_range",
            detail=f"{value:.12g} is refused: {path} goes from {low:.12g} to {high:.12g}",
        )
        for name, value in (("minimum", minimum), ("maximum", maximum))
        if value is not None and not low <= value <= high
    ]
    if problems:
        raise InvalidScenario(problems)
    return low if minimum is None else minimum, high if maximum is None else maximum


def _most_with_work(scenario: Scenario, path: str) -> float:
    """GPUs that have a micro-batch each to divide among them; any number of anything else."""
    pipeline, scaling = scenario.pipeline, scenario.scaling
    if path != "num_gpus" or pipeline is None or not isinstance(scaling, Strong):
        return math.inf
    return pipeline.microbatches * scaling.reference_num_gpus + scenario.num_evicted_gpus


def moves_plans(scenario: Scenario, path: str) -> bool:
    """Whether every value has a pipeline of other sizes, that takes its time to work through."""
    strong = path == "num_gpus" and isinstance(scenario.scaling, Strong)
    return scenario.pipeline is not None and (strong or path in PLAN_PATHS)


def _bound(path: str, value: Number, name: str) -> End:
    return End(value=value, code=name, detail=f"{value} is the {name} of {path} here")


def _sound(whole: Range, scenario: Scenario, base: Columns) -> Range:
    """The part of the range that breaks no rule."""
    count = (whole.highest - whole.lowest) // whole.step + 1 if whole.step else math.inf
    if count <= MOST_LISTED:
        return _listed(whole, scenario, base)
    probes = whole.first_look()
    codes = _codes(base, whole.path, probes)
    sound = np.flatnonzero(codes == 0)
    if not len(sound):
        raise InvalidScenario([_broken(scenario, whole.path, probes[0], int(codes[0]))])
    first, last = int(sound[0]), int(sound[-1])
    found = whole
    if first > 0:
        good, bad = _edge(whole, base, probes[first], probes[first - 1])
        found = replace(found, lowest=good, below=_rule(scenario, base, whole.path, bad))
    if last < len(probes) - 1:
        good, bad = _edge(whole, base, probes[last], probes[last + 1])
        found = replace(found, highest=good, above=_rule(scenario, base, whole.path, bad))
    own = found.own
    is_inside = own is not None and found.lowest <= own <= found.highest
    return replace(found, own=own if is_inside else None)


def _listed(whole: Range, scenario: Scenario, base: Columns) -> Range:
    values = np.arange(int(whole.lowest), int(whole.highest) + 1, whole.step)
    if moves_plans(scenario, whole.path):
        # The rules themselves take their time where operations are drawn.
        whole, values = _short(whole, values, steps_where_simulated(_moved(base, whole, values)))
    codes = _codes(base, whole.path, values.tolist())
    sound = values[codes == 0]
    if not len(sound):
        raise InvalidScenario([_broken(scenario, whole.path, int(values[0]), int(codes[0]))])
    if moves_plans(scenario, whole.path):
        # No two of these values have the same plan.
        whole, sound = _short(whole, sound, plan_steps(_moved(base, whole, sound)))
    first, last = int(sound[0]), int(sound[-1])
    found = replace(
        whole,
        lowest=first,
        highest=last,
        listed=sound,
        own=whole.own if whole.own in sound else None,
    )
    if first > whole.lowest and whole.below.code != TOO_LONG:
        below = _rule(scenario, base, whole.path, first - whole.step)
        found = replace(found, below=below)
    if last < whole.highest and whole.above.code != TOO_LONG:
        above = _rule(scenario, base, whole.path, last + whole.step)
        found = replace(found, above=above)
    return found


def _short(
    whole: Range, sound: NDArray[np.int64], steps: Floats
) -> tuple[Range, NDArray[np.int64]]:
    """The values whose pipelines are worked through soon enough, and what ends them."""
    short = sound[steps <= MOST_STEPS_OF_A_VALUE]
    if not len(short):
        detail = (
            f"the pipeline has {steps.min():.0f} steps or more whatever {whole.path} is: too long "
            "for an answer at once"
        )
        raise InvalidScenario([Problem(pointer="/unknown/path", code=TOO_LONG, detail=detail)])
    first, last = int(short[0]), int(short[-1])
    found = whole if first == sound[0] else replace(whole, below=_too_long(first))
    return (found if last == sound[-1] else replace(found, above=_too_long(last))), short


def _moved(base: Columns, whole: Range, values: NDArray[np.int64]) -> Columns:
    return moved(base, [(whole.path, value) for value in values.tolist()])


def _too_long(value: int) -> End:
    detail = f"the pipelines beyond {value} take too long for an answer at once"
    return End(value=value, code=TOO_LONG, detail=detail)


def _edge(whole: Range, base: Columns, good: Number, bad: Number) -> tuple[Number, Number]:
    """Neighbours between which a rule begins to be broken: the last good value, the first bad."""
    while inside := whole.between(min(good, bad), max(good, bad)):
        ordered = inside if good < bad else inside[::-1]
        broken = np.flatnonzero(_codes(base, whole.path, ordered))
        first_bad = int(broken[0]) if len(broken) else len(ordered)
        bad = bad if first_bad == len(ordered) else ordered[first_bad]
        good = ordered[first_bad - 1] if first_bad else good
    return good, bad


def _codes(base: Columns, path: str, values: Sequence[Number]) -> NDArray[np.int8]:
    return failures(moved(base, [(path, value) for value in values]))


def _rule(scenario: Scenario, base: Columns, path: str, value: Number) -> End:
    fault = _broken(scenario, path, value, int(_codes(base, path, [value])[0]))
    return End(value=value, code=fault.code, detail=fault.detail)


def _broken(scenario: Scenario, path: str, value: Number, code: int) -> Problem:
    moved_there = decode_fields(apply_overrides(full(scenario), {path: value}))
    return describe_failure(code, moved_there)
