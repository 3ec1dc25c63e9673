"""The pipelines that do one job with the least loss, of those that the memory of a GPU allows.

All do the same job on the same GPUs (`same_job.py`): each is a whole evaluation of the scenario
with a few overrides. What is lost is counted at the scenario's own ideal step, as
remedies are, so that pipelines with longer exchanges do not count these as work; over a window of
fixed length the order is that of the expected steps.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats, columns_of, joined
from service.model.fields import Scenario
from service.model.kernel import Results, evaluate
from service.model.pipeline.peaks import peak_microbatches_in_flight
from service.model.pipeline.plans import plan_of
from service.model.pipelines import by_plan
from service.model.plan_lengths import plan_steps
from service.model.problems import InvalidScenario, Problem
from service.model.questions.pipeline_candidates import Candidate, Space, candidates_of
from service.model.questions.pipeline_found import Bounds, Found, Reasons, Sized
from service.model.questions.sampling import (
    MOST_PLAN_STEPS,
    is_sampled,
    refuse_long_recursions,
    without_spread,
)
from service.model.remedy.remedy_gains import Gains, gains_of
from service.model.rules import describe_failure, failures
from service.model.same_job import Overrides, PipelineSizes, same_job, sizes_of
from service.model.scenario import apply_overrides, decode_fields, full
from service.model.stage_memory import StageMemory, memory_of

MAX_CANDIDATES = 2_000
LOST = "gpu_hours_lost"
DIGITS = 9
"""Losses that agree in so many digits are equal, and what holds less comes first."""
Rows = NDArray[np.intp]


class Tried(NamedTuple):
    """A candidate that can be stated: its overrides, and the scenario with them."""

    sizes: PipelineSizes
    overrides: Overrides
    scenario: Scenario


def search(scenario: Scenario, space: Space, bounds: Bounds) -> Found:
    """Evaluate all candidates that keep the rules and the bounds; the scenario must keep the rules.

    Raises InvalidScenario where there is no pipeline (`/pipeline`), and where the answer would take
    too long: too many candidates or too large ones (`/search/stages`), too many draws or steps to
    simulate (`/draws`).
    """
    if scenario.pipeline is None:
        detail = "there is no pipeline: say how the job runs now, be it with a single stage"
        _refuse("/pipeline", "no_pipeline", detail)
    candidates = list(islice(candidates_of(scenario, space), MAX_CANDIDATES + 1))
    if len(candidates) > MAX_CANDIDATES:
        detail = f"there are more than {MAX_CANDIDATES} pipelines to try: list fewer"
        _refuse("/search/stages", "too_many_candidates", detail)
    reasons = Reasons()
    tried = [Tried(sizes_of(scenario.pipeline), {}, scenario)]
    tried.extend(_stated(scenario, candidates, reasons))
    columns = joined([columns_of(each.scenario) for each in tried])
    tried, columns = _sound(tried, columns, reasons)
    _refuse_long(columns)
    peaks = _peaks(columns)
    memory = memory_of(columns, peaks)
    kept = _within(bounds, peaks, memory, reasons)
    part = without_spread(columns.part(kept), LOST)
    is_sampled(part)
    refuse_long_recursions(part)
    results = evaluate(part, with_spread=False)
    rows = _ranked(
        [tried[row] for row in kept],
        results,
        gains_of(part, results),
        peaks[kept],
        StageMemory(*(ratios[kept] for ratios in memory)),
    )
    return Found(
        ranked=tuple(rows),
        left_out=reasons.counted,
        num_candidates=len(candidates),
        results=results,
    )


def _stated(
    scenario: Scenario, candidates: Iterable[Candidate], reasons: Reasons
) -> Iterator[Tried]:
    """Those whose fields can be decoded."""
    document = full(scenario)
    for each in candidates:
        number = each.microbatches
        if number.denominator != 1:
            detail = (
                f"of the same size a replica of {each.stages} stages has {float(number):g} "
                "micro-batches, which must be whole"
            )
            reasons.add("microbatches_not_whole", detail)
            continue
        sizes = PipelineSizes(each.schedule, each.stages, int(number), each.chunks)
        overrides = same_job(scenario, sizes)
        try:
            there = decode_fields(apply_overrides(document, overrides))
        except InvalidScenario as error:
            reasons.add(error.problems[0].code, error.problems[0].detail)
            continue
        yield Tried(sizes, overrides, there)


def _sound(tried: list[Tried], columns: Columns, reasons: Reasons) -> tuple[list[Tried], Columns]:
    """Those that break no rule; the scenario is the first of them."""
    codes = failures(columns).tolist()
    for each, code in zip(tried, codes, strict=True):
        if code:
            problem = describe_failure(code, each.scenario)
            reasons.add(problem.code, problem.detail)
    rows = np.flatnonzero(np.array(codes) == 0)
    return [tried[row] for row in rows], columns.part(rows)


def _refuse_long(columns: Columns) -> None:
    """Pipelines that take too long to work through, before any is."""
    needed = float(plan_steps(columns).sum())
    if needed > MOST_PLAN_STEPS:
        detail = (
            f"the {columns.num_points - 1} pipelines to try have {needed:.0f} steps, at most "
            f"{MOST_PLAN_STEPS} are worked through for one answer: list fewer or smaller ones"
        )
        _refuse("/search/stages", "too_long_at_once", detail)


def _peaks(columns: Columns) -> Floats:
    """(points,) micro-batches in flight at the stage that holds most."""
    peaks = np.empty(columns.num_points)
    for name, sizes, rows in by_plan(columns, np.arange(columns.num_points)):
        peaks[rows] = peak_microbatches_in_flight(plan_of(name, *sizes)).max()
    return peaks


def _within(bounds: Bounds, peaks: Floats, memory: StageMemory, reasons: Reasons) -> Rows:
    """The points that a GPU can hold, and the scenario itself, whatever it holds."""
    held = np.ones(len(peaks), dtype=np.bool_)
    for code, values, most, said in (
        ("too_many_microbatches_in_flight", peaks, bounds.in_flight, "micro-batches in flight"),
        (
            "too_many_activations",
            memory.activations_ratio,
            bounds.activations,
            "times the activations of the scenario",
        ),
        (
            "too_many_parameters",
            memory.parameters_ratio,
            bounds.parameters,
            "times the parameters of the scenario",
        ),
    ):
        if most is None:
            continue
        over = held & (values > most * (1 + 1e-12))
        for value in values[1:][over[1:]].tolist():
            reasons.add(code, f"{value:g} {said}, at most {most:g} fit")
        held &= ~over
    held[0] = True
    return np.flatnonzero(held)


def _ranked(
    tried: list[Tried], results: Results, gains: Gains, peaks: Floats, memory: StageMemory
) -> list[Sized]:
    own = tried[0].sizes
    held = results.columns["gpu_hours_available"]
    lost = held * (1 - gains.efficiency)
    found = [
        Sized(
            sizes=each.sizes,
            overrides=each.overrides,
            microbatch_size_ratio=own.microbatches
            * each.sizes.stages
            / (own.stages * each.sizes.microbatches),
            lost=float(lost[point]),
            lost_se=float(results.columns["gpu_hours_lost_se"][point]),
            given_back=float(gains.given_back[point]),
            efficiency=float(gains.efficiency[point]),
            peak_in_flight=float(peaks[point]),
            activations_ratio=float(memory.activations_ratio[point]),
            parameters_ratio=float(memory.parameters_ratio[point]),
            point=point,
        )
        for point, each in enumerate(tried)
        if point
    ]
    order = {
        sized.point: (float(f"{sized.lost:.{DIGITS}e}"), sized.activations_ratio, sized.point)
        for sized in found
    }
    return sorted(found, key=lambda sized: order[sized.point])


def _refuse(pointer: str, code: str, detail: str) -> NoReturn:
    raise InvalidScenario([Problem(pointer=pointer, code=code, detail=detail)])
