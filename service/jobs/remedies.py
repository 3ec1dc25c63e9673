"""What can be done about the loss of one scenario, ranked by what it gives back; nothing is stored.

Formulas and conventions: `model/remedies.py`, `model/remedy_gains.py`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Notice
from service.jobs.evaluation_prices import EvaluationRates, read_rates
from service.jobs.evaluations import result_of
from service.jobs.planning import placed, resolve_base
from service.jobs.remedy_documents import RemediesIn, RemediesOut, RemedyOut
from service.jobs.remedy_items import request_faults
from service.jobs.typed_prices import typed_rates
from service.model import MODEL_VERSION
from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import Results, evaluate
from service.model.parts.pipeline import Pipeline
from service.model.plan_lengths import plan_steps
from service.model.problems import InvalidScenario
from service.model.questions.sampling import (
    MOST_PLAN_STEPS,
    MOST_RANK_STEPS,
    is_sampled,
    refuse_long_recursions,
    without_spread,
)
from service.model.remedy.remedies import Change, applicable
from service.model.remedy.remedy_gains import Gains, evaluated, num_units
from service.model.remedy.remedy_grid import RemedyGrid, remedy_grid
from service.model.remedy.remedy_kinds import OF_PIPELINE, NotApplicable, RemedyRequest
from service.model.scenario import apply_overrides, decode_scenario, full
from service.model.simulated_points import is_simulated, rank_steps
from service.model.stage_memory import StageMemory, memory_of
from service.reports.money import CostStatus
from service.reports.pricing import Cost

NO_MONEY = Cost(cost=None, cost_status=CostStatus.NO_RATE)


RANK_STEPS_PER_PLAN_STEP = MOST_RANK_STEPS / MOST_PLAN_STEPS
NOT_COVERED = "this combination of sources of variability cannot be computed yet"


class Resolved(Struct, frozen=True, kw_only=True):
    """A scenario, what to try, and the rates that price it (None: no money is asked for).

    `inline` and `overrides` tell where a fault of the scenario stands in the request.
    """

    scenario: Scenario
    requests: list[RemedyRequest]
    rates: EvaluationRates | None = None
    overrides: dict[str, Any] = {}
    inline: bool = True


class Evaluated(NamedTuple):
    """The scenario, point 0, and its remedies."""

    results: Results
    gains: Gains
    memory: StageMemory


def resolve_stored(connection: Connection, actor: Actor, document: RemediesIn) -> Resolved:
    """Resolve what needs the database; raises `InvalidError` with every fault."""
    profile, base = resolve_base(connection, actor, document.profile, document.scenario)
    resolved = _resolved(base, document)
    days = resolved.scenario.period_days
    rates = typed_rates(document, days) or read_rates(
        connection, actor, document, profile, period_days=days
    )
    return msgspec.structs.replace(resolved, rates=rates)


def resolve_inline(document: RemediesIn) -> Resolved | None:
    """Resolve what needs no database; None when it is needed."""
    if document.scenario is None or document.profile is not None or document.asks_for_money:
        return None
    resolved = _resolved(document.scenario, document)
    rates = typed_rates(document, resolved.scenario.period_days)
    return msgspec.structs.replace(resolved, rates=rates)


def answer(resolved: Resolved) -> RemediesOut:
    """Evaluate the scenario and all remedies that apply, in one go.

    Raises `InvalidError` for more draws than can be answered at once.
    """
    scenario, rates = resolved.scenario, resolved.rates
    grid, left_out = within_reach(resolved)
    evaluated_all = _evaluated(grid)
    found = []
    for point, change in enumerate(grid.changes, start=1):
        if np.isfinite(evaluated_all.gains.given_back[point]):
            found.append(_remedy(resolved, change, evaluated_all, point))
        else:
            remedy = change.remedy
            left_out.append(
                NotApplicable(kind=remedy.kind, setting=remedy.setting, reason=NOT_COVERED)
            )
    found.sort(key=lambda remedy: -remedy.gpu_hours_given_back)
    days = scenario.period_days
    return RemediesOut(
        result=result_of(evaluate(columns_of(scenario)).columns),
        remedies=found,
        not_applicable=left_out,
        cost_status=_cost(rates, 0.0, days).cost_status,
        rates=rates.rate_days(days) if rates else [],
        unpriced_days=rates.unpriced_days(days) if rates else days,
        warnings=_notices(scenario, found),
        model_version=MODEL_VERSION,
        scenario=full(scenario),
    )


def within_reach(resolved: Resolved) -> tuple[RemedyGrid, list[NotApplicable]]:
    """The grid of the remedies that an answer at once has time for, and what is left out.

    Raises `InvalidError` where the scenario itself, or clusters that are drawn, take too long.
    """
    changes, left_out = applicable(resolved.scenario, resolved.requests)
    whole = remedy_grid(resolved.scenario, changes)
    columns = without_spread(whole.columns(0, whole.num_points), "gpu_hours_lost")
    simulated = is_simulated(columns)
    try:
        is_sampled(columns.part(np.flatnonzero(~simulated | (np.arange(len(simulated)) == 0))))
        refuse_long_recursions(columns.part(slice(1)))
    except InvalidScenario as error:
        raise _placed(error, resolved.overrides, inline=resolved.inline) from error
    steps = rank_steps(columns) + RANK_STEPS_PER_PLAN_STEP * plan_steps(columns)
    # The shortest first: so as many as can be are answered.
    order = np.argsort(steps[1:], kind="stable")
    fits = np.empty(len(order), dtype=np.bool_)
    fits[order] = steps[0] + np.cumsum(steps[1:][order]) <= MOST_RANK_STEPS
    left_out += [
        _too_long(change, needed)
        for change, needed, fit in zip(changes, steps[1:].tolist(), fits.tolist(), strict=True)
        if not fit
    ]
    if fits.all():
        return whole, left_out
    kept = [change for change, fit in zip(changes, fits.tolist(), strict=True) if fit]
    return remedy_grid(resolved.scenario, kept), left_out


def _too_long(change: Change, needed: float) -> NotApplicable:
    reason = (
        f"{needed:.1e} steps of single GPUs would be simulated, or pipelines worked through for as "
        "long, which takes too long for an answer at once: fewer draws, this remedy alone, or a "
        "batch would do"
    )
    remedy = change.remedy
    return NotApplicable(kind=remedy.kind, setting=remedy.setting, reason=reason)


def _resolved(base: dict[str, Any], document: RemediesIn) -> Resolved:
    inline = document.scenario is not None
    faults = request_faults(document.remedies, "/remedies")
    try:
        scenario = decode_scenario(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        raise _placed(error, document.overrides, inline=inline) from error
    if faults:
        raise _refused(faults)
    return Resolved(
        scenario=scenario,
        requests=document.remedies,
        overrides=document.overrides,
        inline=inline,
    )


def _placed(error: InvalidScenario, overrides: dict[str, Any], *, inline: bool) -> InvalidError:
    return _refused([placed(fault, overrides, inline=inline) for fault in error.problems])


def _refused(faults: list[FieldFault]) -> InvalidError:
    return InvalidError(
        faults[0].detail if len(faults) == 1 else f"{len(faults)} values are refused",
        problem="invalid-scenario",
        errors=faults,
    )


def _evaluated(grid: RemedyGrid) -> Evaluated:
    results, gains = evaluated(grid, with_spread=False)
    columns = grid.columns(0, grid.num_points)
    memory = memory_of(columns, results.columns["peak_microbatches_in_flight"])
    return Evaluated(results, gains, memory)


def _remedy(resolved: Resolved, change: Change, found: Evaluated, point: int) -> RemedyOut:
    scenario, rates = resolved.scenario, resolved.rates
    results, gains = found.results, found.gains
    peaks = results.columns["peak_microbatches_in_flight"]
    same_job = change.remedy.kind in OF_PIPELINE
    given_back = float(gains.given_back[point])
    held = float(gains.held_change[point])
    count = num_units(scenario, change.remedy)
    break_even = (given_back + max(held, 0.0)) / count
    return RemedyOut(
        kind=change.remedy.kind,
        setting=change.remedy.setting,
        count=count,
        overrides=change.overrides,
        gpu_hours_given_back=given_back,
        gpu_hours_given_back_se=float(gains.given_back_se[point]),
        gpu_hours_held_change=held,
        gpu_hours_effective_change=float(gains.effective_change[point]),
        gpu_hours_saved_for_equal_work=float(gains.saved[point]),
        step_mean_ms_after=float(results.columns["step_mean_ms"][point]),
        efficiency_fraction_after=float(gains.efficiency[point]),
        useful_compute_fraction_after=float(results.columns["useful_compute_fraction"][point]),
        break_even_extra_steps_fraction=_finite(
            results.columns["break_even_extra_steps_fraction"][point]
        ),
        break_even_gpu_hours=break_even,
        peak_microbatches_in_flight_before=_finite(peaks[0]) if same_job else None,
        peak_microbatches_in_flight_after=_finite(peaks[point]) if same_job else None,
        activation_ratio=_finite(found.memory.activations_ratio[point]) if same_job else None,
        parameter_ratio=_finite(found.memory.parameters_ratio[point]) if same_job else None,
        money_given_back=_cost(rates, given_back, scenario.period_days).cost,
        money_saved_for_equal_work=_cost(
            rates, float(gains.saved[point]), scenario.period_days
        ).cost,
        break_even_price=_cost(rates, break_even, scenario.period_days).cost,
    )


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _cost(rates: EvaluationRates | None, gpu_hours: float, period_days: int) -> Cost:
    return NO_MONEY if rates is None else rates.cost(gpu_hours, period_days)


def _of_pipeline(pipeline: Pipeline, found: Sequence[RemedyOut]) -> Iterator[Notice]:
    """What remedies of a job with a pipeline take for granted."""
    for position, remedy in enumerate(found):
        place = f"/remedies/{position}"
        if remedy.kind == "rebalance_work":
            detail = (
                "all GPUs share the work by their speed, as if layers and micro-batches could be "
                "divided at will"
            )
            yield Notice(pointer=place, code="work_divided", detail=detail)
        if remedy.kind == "more_microbatches" and pipeline.p2p_ms > 0:
            detail = "p2p_ms is taken to be the same for smaller micro-batches"
            yield Notice(pointer=place, code="p2p_kept", detail=detail)


def _notices(scenario: Scenario, found: Sequence[RemedyOut]) -> list[Notice]:
    """What is approximate in the answer."""
    notices = []
    drawn = scenario.variability.persistent or scenario.variability.node
    for position, remedy in enumerate(found):
        if remedy.kind == "rebalance_work" and drawn is not None:
            detail = (
                "the mean speed of the GPUs enters by its expectation to second order in 1/N; how "
                "it differs between clusters is left out of the spread"
            )
            place = f"/remedies/{position}"
            notices.append(Notice(pointer=place, code="second_order", detail=detail))
    if scenario.pipeline is not None:
        notices.extend(_of_pipeline(scenario.pipeline, found))
    sampled = sum(remedy.gpu_hours_given_back_se > 0 for remedy in found)
    if sampled:
        detail = (
            f"{sampled} of {len(found)} remedies are sampled, with the draws of the scenario "
            "itself; their standard errors are those of independent draws, which is more than the "
            "true ones"
        )
        notices.append(Notice(pointer="/remedies", code="sampled", detail=detail))
    return notices
