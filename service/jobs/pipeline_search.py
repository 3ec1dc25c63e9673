"""Pipelines that do one job, ranked by what they lose; nothing is stored.

Mathematics and conventions: `model/questions/pipeline_search.py`.
"""

from typing import Any

import msgspec
from msgspec import Struct

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Notice
from service.jobs.evaluation_prices import EvaluationRates, read_rates
from service.jobs.evaluations import result_of
from service.jobs.pipeline_search_documents import (
    CandidatesIn,
    LeftOutOut,
    PipelineSearchIn,
    PipelineSearchOut,
    SizedOut,
)
from service.jobs.planning import placed, resolve_base
from service.jobs.typed_prices import typed_rates
from service.model import MODEL_VERSION
from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario, Problem
from service.model.questions.pipeline_candidates import Space
from service.model.questions.pipeline_found import Bounds, Found, Sized
from service.model.questions.pipeline_search import (
    ACTIVATIONS,
    BY_TIME,
    IN_FLIGHT,
    PARAMETERS,
    search,
)
from service.model.scenario import apply_overrides, decode_scenario, full
from service.reports.money import CostStatus, Money

OF_THE_SEARCH = "/search"
BY_MEMORY = (IN_FLIGHT.code, ACTIVATIONS.code, PARAMETERS.code)
# Copied as they are from the output columns of the same names.
COLUMNS = ("gpu_hours_per_1000_steps", "step_mean_ms", "bubble_fraction", "busy_gpus_mean")


class Resolved(Struct, frozen=True, kw_only=True):
    """A scenario, what to try in its place, and the rates that price it (None: no money)."""

    scenario: Scenario
    document: CandidatesIn
    rates: EvaluationRates | None = None
    overrides: dict[str, Any] = {}
    inline: bool = True


def resolve_stored(connection: Connection, actor: Actor, document: PipelineSearchIn) -> Resolved:
    """Resolve what needs the database; raises `InvalidError` with every fault."""
    profile, base = resolve_base(connection, actor, document.profile, document.scenario)
    resolved = _resolved(base, document)
    days = resolved.scenario.period_days
    rates = typed_rates(document, days) or read_rates(
        connection, actor, document, profile, period_days=days
    )
    return msgspec.structs.replace(resolved, rates=rates)


def resolve_inline(document: PipelineSearchIn) -> Resolved | None:
    """Resolve what needs no database; None when it is needed."""
    if document.scenario is None or document.profile is not None or document.asks_for_money:
        return None
    resolved = _resolved(document.scenario, document)
    rates = typed_rates(document, resolved.scenario.period_days)
    return msgspec.structs.replace(resolved, rates=rates)


def answer(resolved: Resolved) -> PipelineSearchOut:
    """Search; raises `InvalidError` where there is no pipeline, or it would take too long."""
    try:
        return searched(resolved.scenario, resolved.document, resolved.rates)
    except InvalidScenario as error:
        raise _refused(error, resolved.overrides, inline=resolved.inline) from error


def searched(
    scenario: Scenario, document: CandidatesIn, rates: EvaluationRates | None = None
) -> PipelineSearchOut:
    """The answer about a sound scenario.

    Raises InvalidScenario: pointers below `/search` are of the request, others of the scenario.
    """
    found = search(scenario, _space(document), _bounds(document))
    days = scenario.period_days
    of_memory = sum(each.count for each in found.left_out if each.code in BY_MEMORY)
    of_time = sum(each.count for each in found.left_out if each.code == BY_TIME)
    return PipelineSearchOut(
        result=result_of(evaluate(columns_of(scenario)).columns),
        pipelines=[_row(scenario, found, sized, rates) for sized in found.ranked[: document.limit]],
        candidates=found.num_candidates,
        evaluated=len(found.ranked),
        left_out_by_memory=of_memory,
        left_out_by_rules=sum(each.count for each in found.left_out) - of_memory - of_time,
        left_out_by_time=of_time,
        left_out=[
            LeftOutOut(code=each.code, count=each.count, detail=each.detail)
            for each in found.left_out
        ],
        cost_status=CostStatus.NO_RATE if rates is None else rates.cost(0.0, days).cost_status,
        rates=rates.rate_days(days) if rates else [],
        unpriced_days=rates.unpriced_days(days) if rates else days,
        warnings=_notices(scenario, found),
        model_version=MODEL_VERSION,
        scenario=full(scenario),
    )


def _space(document: CandidatesIn) -> Space:
    if document.keep is not None and document.microbatches is not None:
        detail = "microbatches says how many there are: leave out keep"
        fault = Problem(pointer="/search/keep", code="keep_beside_microbatches", detail=detail)
        raise InvalidScenario([fault])
    return Space(
        stages=document.stages,
        microbatches=document.microbatches,
        chunks=document.chunks_per_stage,
        schedules=document.schedules,
        keep=document.keep or "microbatch_size",
    )


def _bounds(document: CandidatesIn) -> Bounds:
    return Bounds(
        in_flight=document.max_microbatches_in_flight,
        activations=document.max_activation_ratio,
        parameters=document.max_parameter_ratio,
    )


def _row(scenario: Scenario, found: Found, sized: Sized, rates: EvaluationRates | None) -> SizedOut:
    sizes, columns = sized.sizes, found.results.columns
    used = scenario.num_gpus - scenario.num_evicted_gpus
    return SizedOut(
        schedule=sizes.schedule,
        stages=sizes.stages,
        microbatches=sizes.microbatches,
        chunks_per_stage=sizes.chunks,
        replicas=used // (sizes.stages * scenario.tensor_parallel_size),
        microbatch_size_ratio=sized.microbatch_size_ratio,
        overrides=sized.overrides,
        gpu_hours_lost=sized.lost,
        gpu_hours_lost_se=sized.lost_se,
        gpu_hours_given_back=sized.given_back,
        efficiency_fraction=sized.efficiency,
        peak_microbatches_in_flight=sized.peak_in_flight,
        activation_ratio=sized.activations_ratio,
        parameter_ratio=sized.parameters_ratio,
        money_lost=_money(rates, sized.lost, scenario.period_days),
        money_given_back=_money(rates, sized.given_back, scenario.period_days),
        **{name: float(columns[name][sized.point]) for name in COLUMNS},
    )


def _money(rates: EvaluationRates | None, gpu_hours: float, period_days: int) -> Money | None:
    return None if rates is None else rates.cost(gpu_hours, period_days).cost


def _notices(scenario: Scenario, found: Found) -> list[Notice]:
    """What is taken for granted, or approximate, in the answer."""
    pipeline = scenario.pipeline
    notices = []
    if pipeline is not None and pipeline.p2p_ms > 0:
        detail = (
            "p2p_ms is taken to be the same for micro-batches of every size; where it goes with "
            "their size, ask with p2p_ms in overrides"
        )
        notices.append(Notice(pointer="/scenario/pipeline/p2p_ms", code="p2p_kept", detail=detail))
    if any("slow_groups" in sized.overrides for sized in found.ranked):
        detail = (
            "slow GPUs at a stage are taken to sit at the stage that holds the middle of its share "
            "of the model"
        )
        notices.append(Notice(pointer="/scenario/slow_groups", code="stages_moved", detail=detail))
    lists = ("forward_ms", "backward_ms", "stage_weights")
    uneven = any(isinstance(getattr(pipeline, name), tuple) for name in lists)
    if uneven and any("pipeline.stages" in sized.overrides for sized in found.ranked):
        detail = "the work of each stage is taken to lie evenly inside of it where stages change"
        notices.append(Notice(pointer="/scenario/pipeline", code="work_shared_out", detail=detail))
    large = sum(each.count for each in found.left_out if each.code == PARAMETERS.code)
    if large:
        detail = (
            f"{large} pipelines were left out because a GPU would hold more parameters than "
            "max_parameter_ratio allows: as many as in the scenario (1) where it is not given, "
            "any number where it is null"
        )
        where = "/search/max_parameter_ratio"
        notices.append(Notice(pointer=where, code="parameters_bounded", detail=detail))
    sampled = sum(sized.lost_se > 0 for sized in found.ranked)
    if sampled:
        detail = (
            f"{sampled} of {len(found.ranked)} pipelines are simulated, all with the draws of the "
            "scenario itself: those that differ by less than gpu_hours_lost_se may change places"
        )
        notices.append(Notice(pointer="/pipelines", code="sampled", detail=detail))
    return notices


def _resolved(base: dict[str, Any], document: PipelineSearchIn) -> Resolved:
    inline = document.scenario is not None
    try:
        scenario = decode_scenario(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        raise _refused(error, document.overrides, inline=inline) from error
    return Resolved(
        scenario=scenario, document=document.search, overrides=document.overrides, inline=inline
    )


def _refused(error: InvalidScenario, overrides: dict[str, Any], *, inline: bool) -> InvalidError:
    errors = [
        FieldFault(pointer=fault.pointer, code=fault.code, detail=fault.detail)
        if fault.pointer.startswith(OF_THE_SEARCH)
        else placed(fault, overrides, inline=inline)
        for fault in error.problems
    ]
    return InvalidError(
        errors[0].detail if len(errors) == 1 else f"{len(errors)} values are refused",
        problem="invalid-scenario",
        errors=errors,
    )
