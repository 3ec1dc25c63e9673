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
from service.model.pipeline.plans import peak_of
from service.model.pipelines import by_plan
from service.model.plan_lengths import chunk_microbatches, plan_steps
from service.model.problems import InvalidScenario, Problem
from service.model.questions.pipeline_candidates import Candidate, Space, candidates_of
from service.model.questions.pipeline_found import Bounds, Found, Reasons, Sized
from service.model.questions.sampling import (
    MOST_PLAN_STEPS,
    MOST_RANK_STEPS,
    is_sampled,
    refuse_long_recursions,
    without_spread,
)
from service.model.remedy.remedy_gains import Gains, gains_of
from service.model.rules import describe_failure, failures
from service.model.same_job import Overrides, PipelineSizes, same_job, sizes_of
from service.model.scenario import apply_overrides, decode_fields, full
from service.model.simulated_points import rank_steps
from service.model.stage_memory import StageMemory, memory_of

MAX_CANDIDATES = 2_000
MOST_HELD = 100_000
"""P M V of plans that are worked through together, fewer than are kept (`plans.py`)."""
LOST = "gpu_hours_lost"
BY_TIME = "too_long_at_once"
DIGITS = 9
"""Losses that agree in so many digits are equal, and what holds less comes first."""
ROUND_OFF = 1e-12
"""Relative; by so much a ratio may be above its bound."""
Rows = NDArray[np.intp]


class Memory(NamedTuple):
    """Something that a GPU holds: why candidates with too much of it are left out."""

    code: str
    unit: str


IN_FLIGHT = Memory("too_many_microbatches_in_flight", "micro-batches in flight")
ACTIVATIONS = Memory("too_many_activations", "times the activations of the scenario")
PARAMETERS = Memory("too_many_parameters", "times the parameters of the scenario")


class Tried(NamedTuple):
    """A candidate that can be stated: its overrides, and the scenario with them."""

    sizes: PipelineSizes
    overrides: Overrides
    scenario: Scenario


def search(scenario: Scenario, space: Space, bounds: Bounds) -> Found:
    """Evaluate all candidates that keep the rules and the bounds; the scenario must keep the rules.

    Candidates for which there is no time are left out, the largest first. Raises InvalidScenario
    where there is no pipeline (`/pipeline`), where there are too many candidates
    (`/search/stages`), and where the scenario itself takes too long.
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
    columns = without_spread(joined([columns_of(each.scenario) for each in tried]), LOST)
    is_sampled(columns)
    refuse_long_recursions(columns.part(slice(1)))
    rows = _sound(tried, columns, reasons)
    unknown = np.full(columns.num_points, np.nan)
    parameters = memory_of(columns.part(rows), unknown[rows]).parameters_ratio
    rows = rows[_bounded(parameters, bounds.parameters, PARAMETERS, reasons)]
    peaks = unknown
    peaks[rows] = _peaks(columns.part(rows))
    rows = rows[_bounded(peaks[rows], bounds.in_flight, IN_FLIGHT, reasons)]
    activations = memory_of(columns.part(rows), peaks[rows]).activations_ratio
    rows = rows[_bounded(activations, bounds.activations, ACTIVATIONS, reasons)]
    part = columns.part(rows)
    of_ranks = rank_steps(part, with_spread=False) / MOST_RANK_STEPS
    costs = plan_steps(part) / MOST_PLAN_STEPS + of_ranks
    rows = rows[_in_time(costs, reasons)]
    part, peaks = columns.part(rows), peaks[rows]
    results = _evaluated(part)
    return Found(
        ranked=tuple(
            _ranked(
                [tried[row] for row in rows],
                results,
                gains_of(part, results),
                peaks,
                memory_of(part, peaks),
            )
        ),
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


def _sound(tried: list[Tried], columns: Columns, reasons: Reasons) -> Rows:
    """The points that break no rule; the scenario is the first of them."""
    codes = failures(columns)
    for each, code in zip(tried, codes.tolist(), strict=True):
        if code:
            problem = describe_failure(code, each.scenario)
            reasons.add(problem.code, problem.detail)
    return np.flatnonzero(codes == 0)


def _in_time(costs: Floats, reasons: Reasons) -> Rows:
    """The scenario, and as many points as there is time for: they may cost 1 together."""
    order = 1 + np.argsort(costs[1:], kind="stable")
    fits = np.ones(len(costs), dtype=np.bool_)
    fits[order] = costs[0] + np.cumsum(costs[order]) <= 1
    for _ in range(int(np.count_nonzero(~fits))):
        detail = (
            "there is no time for so many pipelines in one answer, and the largest are left out: "
            "list fewer or smaller ones, bound their memory, or ask with fewer draws"
        )
        reasons.add(BY_TIME, detail)
    return np.flatnonzero(fits)


def _evaluated(columns: Columns) -> Results:
    """A few plans at a time, so that none is put into an order more than once."""
    so_far = np.cumsum(chunk_microbatches(columns)) // MOST_HELD
    parts = [
        evaluate(columns.part(np.flatnonzero(so_far == number)), with_spread=False)
        for number in np.unique(so_far)
    ]
    names = parts[0].columns
    return Results(
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in names},
        failure=np.concatenate([part.failure for part in parts]),
    )


def _peaks(columns: Columns) -> Floats:
    """(points,) micro-batches in flight at the stage that holds most."""
    peaks = np.empty(columns.num_points)
    for name, sizes, rows in by_plan(columns, np.arange(columns.num_points)):
        peaks[rows] = peak_of(name, *sizes)
    return peaks


def _bounded(values: Floats, most: float | None, said: Memory, reasons: Reasons) -> Rows:
    """The points with at most so much, and the scenario itself, whatever it holds."""
    if most is None:
        return np.arange(len(values))
    over = values > most * (1 + ROUND_OFF)
    over[0] = False
    for value in values[over].tolist():
        reasons.add(said.code, f"{value:g} {said.unit}, at most {most:g} fit")
    return np.flatnonzero(~over)


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
