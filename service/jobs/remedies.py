"""What can be done about the loss of one scenario, ranked by what it gives back; nothing is stored.

Formulas and conventions: `model/remedies.py`, `model/remedy_gains.py`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Notice
from service.jobs.evaluation_prices import EvaluationRates, read_rates
from service.jobs.output_columns import ResultColumns
from service.jobs.planning import placed, resolve_base
from service.jobs.remedy_documents import RemediesIn, RemediesOut, RemedyOut
from service.jobs.remedy_items import request_faults
from service.jobs.results import shown_value
from service.model import MODEL_VERSION
from service.model.fields import Scenario
from service.model.kernel import Results
from service.model.problems import InvalidScenario
from service.model.remedies import Change, applicable
from service.model.remedy_gains import Gains, evaluated, num_units
from service.model.remedy_grid import remedy_grid
from service.model.remedy_kinds import RemedyRequest
from service.model.results import COLUMNS
from service.model.scenario import apply_overrides, decode_scenario, full
from service.reports.money import CostStatus
from service.reports.pricing import Cost

NO_MONEY = Cost(cost=None, cost_status=CostStatus.NO_RATE)


class Resolved(Struct, frozen=True, kw_only=True):
    """A scenario, what to try, and the rates that price it (None: no money is asked for)."""

    scenario: Scenario
    requests: list[RemedyRequest]
    rates: EvaluationRates | None = None


def resolve_stored(connection: Connection, actor: Actor, document: RemediesIn) -> Resolved:
    """Resolve what needs the database; raises `InvalidError` with every fault."""
    profile, base = resolve_base(connection, actor, document.profile, document.scenario)
    resolved = _resolved(base, document)
    days = resolved.scenario.period_days
    rates = read_rates(connection, actor, document, profile, period_days=days)
    return msgspec.structs.replace(resolved, rates=rates)


def resolve_inline(document: RemediesIn) -> Resolved | None:
    """Resolve what needs no database; None when it is needed."""
    if document.scenario is None or document.profile is not None or document.asks_for_money:
        return None
    return _resolved(document.scenario, document)


def answer(resolved: Resolved) -> RemediesOut:
    """Evaluate the scenario and all remedies that apply, in one go."""
    scenario, rates = resolved.scenario, resolved.rates
    changes, left_out = applicable(scenario, resolved.requests)
    results, gains = evaluated(remedy_grid(scenario, changes))
    found = [
        _remedy(scenario, rates, change, results, gains, point)
        for point, change in enumerate(changes, start=1)
    ]
    found.sort(key=lambda remedy: -remedy.gpu_hours_given_back)
    days = scenario.period_days
    return RemediesOut(
        result=ResultColumns(
            **{
                column.name: shown_value(column.name, results.columns[column.name][0])
                for column in COLUMNS
            }
        ),
        remedies=found,
        not_applicable=left_out,
        cost_status=_cost(rates, 0.0, days).cost_status,
        rates=rates.rate_days(days) if rates else [],
        unpriced_days=rates.unpriced_days(days) if rates else days,
        warnings=_notices(scenario, found),
        model_version=MODEL_VERSION,
        scenario=full(scenario),
    )


def _resolved(base: dict[str, Any], document: RemediesIn) -> Resolved:
    faults = request_faults(document.remedies, "/remedies")
    try:
        scenario = decode_scenario(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        inline = document.scenario is not None
        faults = [placed(each, document.overrides, inline=inline) for each in error.problems]
        raise _refused(faults) from error
    if faults:
        raise _refused(faults)
    return Resolved(scenario=scenario, requests=document.remedies)


def _refused(faults: list[FieldFault]) -> InvalidError:
    return InvalidError(
        faults[0].detail if len(faults) == 1 else f"{len(faults)} values are refused",
        problem="invalid-scenario",
        errors=faults,
    )


def _remedy(
    scenario: Scenario,
    rates: EvaluationRates | None,
    change: Change,
    results: Results,
    gains: Gains,
    point: int,
) -> RemedyOut:
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
        step_mean_ms_after=float(results.columns["step_mean_ms"][point]),
        efficiency_fraction_after=float(gains.efficiency[point]),
        break_even_gpu_hours=break_even,
        money_given_back=_cost(rates, given_back, scenario.period_days).cost,
        break_even_price=_cost(rates, break_even, scenario.period_days).cost,
    )


def _cost(rates: EvaluationRates | None, gpu_hours: float, period_days: int) -> Cost:
    return NO_MONEY if rates is None else rates.cost(gpu_hours, period_days)


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
            notices.append(_notice(position, "second_order", detail))
        if remedy.gpu_hours_given_back_se > 0:
            detail = (
                "sampled with the draws of the scenario itself; the standard error is that of "
                "independent draws, which is more than the true one"
            )
            notices.append(_notice(position, "sampled", detail))
    return notices


def _notice(position: int, code: str, detail: str) -> Notice:
    return Notice(pointer=f"/remedies/{position}", code=code, detail=detail)
