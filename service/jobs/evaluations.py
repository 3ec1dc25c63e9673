"""One scenario, answered at once; nothing is stored."""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, Protocol

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from service.db.engine import Connection
from service.errors import Fault, FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import (
    Notice,
    Overrides,
    ProfileReference,
    ScenarioObject,
)
from service.jobs.drift import drift_notice
from service.jobs.evaluation_costs import EvaluationCosts, costs_of
from service.jobs.evaluation_extras import (
    IndependentRanks,
    ModelSpread,
    PipelineStage,
    SensitivityIn,
    SensitivityOut,
    independent_ranks_of,
    model_spread_of,
    pipeline_stages_of,
    sensitivity_of,
)
from service.jobs.evaluation_notices import notices_of
from service.jobs.evaluation_prices import EvaluationRates, read_rates
from service.jobs.output_columns import ResultColumns
from service.jobs.planning import placed, resolve_base
from service.jobs.results import shown_value
from service.jobs.typed_prices import TypedPriceIn, typed_rates
from service.model import MODEL_VERSION
from service.model.active import is_active
from service.model.answer_parts import PART_COLUMNS
from service.model.columns import Columns, columns_of
from service.model.drawn_passes import TooManyOperationsError
from service.model.draws import RankDraw, draw_ranks
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.parts.synchronization import BackupWorkers, EveryStep
from service.model.problems import InvalidScenario, Problem
from service.model.questions.sampling import MOST_DRAWS, refuse_long_recursions
from service.model.questions.tail_choice import FAMILIES
from service.model.results import COLUMNS
from service.model.scenario import apply_overrides, decode_scenario, full

MAX_RANKS = 4_096
MOST_BRIEF_GPUS = 200_000
"""More are drawn for longer than the rest takes."""


Part = Literal["spread", "causes", "quantiles"]
LeaveOut = Annotated[
    tuple[Part, ...],
    Meta(
        max_length=8,
        description="Parts that are not worked out, to save their time; their columns are null, "
        "all others are the same. "
        + " ".join(f"`{part}`: {', '.join(names)}." for part, names in PART_COLUMNS.items()),
    ),
]


class AboutScenario(Protocol):
    """A request about a scenario, inline or of a profile."""

    @property
    def scenario(self) -> dict[str, Any] | None:
        """Inline, if it is."""

    @property
    def overrides(self) -> dict[str, Any]:
        """Of single values."""


class EvaluationIn(TypedPriceIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario: inline, or the defaults of a profile; either may be overridden."""

    scenario: ScenarioObject | None = None
    profile: ProfileReference | None = None
    overrides: Overrides = msgspec.field(default_factory=dict)
    ranks_limit: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_RANKS,
            description="Rows of the single draw, slowest rank first; 0 leaves the draw out.",
        ),
    ] = 64
    sensitivity: (
        Annotated[
            SensitivityIn,
            Meta(description="Each number of the scenario moved alone: `{}` by 10 % of itself."),
        ]
        | None
    ) = None
    model_spread: Annotated[
        bool,
        Meta(description="The loss under normal, lognormal and gamma sources of the same cv."),
    ] = False
    independent_ranks: Annotated[
        bool, Meta(description="How many draws of each source are independent.")
    ] = False
    leave_out: LeaveOut = ()


class EvaluationOut(msgspec.Struct, frozen=True, kw_only=True):
    """The expected loss of the scenario, one reproducible draw of its ranks, and what was asked."""

    result: ResultColumns
    ranks: RankDraw | None
    costs: Annotated[
        EvaluationCosts | None,
        Meta(description="Null unless `currency`, `pricing` or `price_per_gpu_hour` is given."),
    ]
    sensitivity: Annotated[SensitivityOut | None, Meta(description="Null unless asked for.")]
    model_spread: Annotated[ModelSpread | None, Meta(description="Null unless asked for.")]
    independent_ranks: Annotated[
        list[IndependentRanks] | None, Meta(description="Null unless asked for.")
    ]
    pipeline_stages: Annotated[
        list[PipelineStage] | None,
        Meta(description="Each stage at nominal speed; null without a pipeline."),
    ]
    warnings: list[Notice]
    model_version: str
    scenario: Annotated[
        ScenarioObject, Meta(description="The scenario as computed, every default written out.")
    ]


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that can be computed, what is asked about it, and what prices it."""

    scenario: Scenario
    document: EvaluationIn
    rates: EvaluationRates | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def is_quick(self) -> bool:
        """Whether the answer takes a millisecond or so: one source at most, and nothing beside."""
        variability = self.scenario.variability
        sources = (
            variability.persistent,
            variability.node,
            variability.replica,
            variability.common,
            variability.spikes,
            variability.episodes,
        )
        return self._is_plain and all(source is None for source in sources)

    @property
    def is_brief(self) -> bool:
        """Whether it takes a blink: of steps that wait for all GPUs nothing but means."""
        return (
            self._is_plain
            and set(self.document.leave_out) == set(PART_COLUMNS)
            and self.scenario.num_gpus <= MOST_BRIEF_GPUS
        )

    @property
    def _is_plain(self) -> bool:
        """Whether all GPUs wait for each other at every step, and nothing is asked beside."""
        waits = isinstance(self.scenario.synchronization, EveryStep | BackupWorkers)
        asked = self.document.model_spread or self.document.sensitivity is not None
        return waits and self.scenario.pipeline is None and not asked


def resolve_stored(connection: Connection, actor: Actor, document: EvaluationIn) -> Resolved:
    """Resolve a scenario that may name a profile; raises `InvalidError` with every fault."""
    profile, base = resolve_base(connection, actor, document.profile, document.scenario)
    scenario = _decoded(base, document)
    days = scenario.period_days
    rates = typed_rates(document, days) or read_rates(
        connection, actor, document, profile, period_days=days
    )
    return Resolved(
        scenario=scenario,
        document=document,
        rates=rates,
        notices=tuple(drift_notice(connection, actor, profile)),
    )


def resolve_inline(document: EvaluationIn) -> Resolved | None:
    """Resolve a scenario that needs no database; None when it, or its price, does."""
    if document.scenario is None or document.profile is not None or document.asks_for_money:
        return None
    scenario = _decoded(document.scenario, document)
    rates = typed_rates(document, scenario.period_days)
    return Resolved(scenario=scenario, document=document, rates=rates)


def answer(resolved: Resolved) -> EvaluationOut:
    """Compute the scenario, one draw of it and what is asked beside.

    Raises `InvalidError` for intervals of the sensitivity that cannot be.
    """
    scenario, document = resolved.scenario, resolved.document
    inputs = columns_of(scenario)
    refuse_too_many_draws(inputs, document)
    refuse_long(inputs, document)
    columns = evaluate(inputs, **wanted_of(document.leave_out)).columns
    ranks, left_out = _ranks(scenario, document.ranks_limit)
    return EvaluationOut(
        result=result_of(columns),
        ranks=ranks,
        costs=None if resolved.rates is None else costs_of(columns, scenario, resolved.rates),
        sensitivity=_sensitivity(resolved),
        model_spread=model_spread_of(scenario) if document.model_spread else None,
        independent_ranks=independent_ranks_of(scenario) if document.independent_ranks else None,
        pipeline_stages=pipeline_stages_of(scenario),
        warnings=[
            *resolved.notices,
            *notices_of(columns, inputs, document.leave_out),
            *left_out,
        ],
        model_version=MODEL_VERSION,
        scenario=full(scenario),
    )


def wanted_of(leave_out: Collection[Part]) -> dict[str, bool]:
    """What the kernel is to work out."""
    return {f"with_{part}": part not in leave_out for part in PART_COLUMNS}


def _ranks(scenario: Scenario, limit: int) -> tuple[RankDraw | None, list[Notice]]:
    """The single draw; None where none is asked for, or where it would take too long."""
    if not limit:
        return None, []
    try:
        return draw_ranks(scenario, limit), []
    except TooManyOperationsError as error:
        detail = f"the single draw of the ranks is left out: {error}"
        return None, [Notice(pointer="/ranks_limit", code="ranks_not_drawn", detail=detail)]


def refuse_too_many_draws(inputs: Columns, document: AboutScenario) -> None:
    """A spread that is sampled more often than an answer at once has time for."""
    lasting = is_active(inputs, "persistent") | is_active(inputs, "node")
    draws = int(np.where(lasting, inputs["draws"], 0).max())
    if draws <= MOST_DRAWS:
        return
    detail = (
        f"{draws} draws take too long for an answer at once, at most {MOST_DRAWS} do not; post the "
        "scenario as a batch"
    )
    problem = Problem(pointer="/draws", code="too_many_draws", detail=detail)
    raise refused([problem], document)


def refuse_long(inputs: Columns, document: EvaluationIn) -> None:
    """Steps that are simulated for longer than an answer at once has time for."""
    families = len(FAMILIES) if document.model_spread else 0
    try:
        refuse_long_recursions(inputs, 1 + families)
    except InvalidScenario as error:
        raise refused(error.problems, document) from error


def result_of(columns: Mapping[str, NDArray[Any]]) -> ResultColumns:
    """The results of one point as they are answered."""
    return ResultColumns(
        **{column.name: shown_value(column.name, columns[column.name][0]) for column in COLUMNS}
    )


def _sensitivity(resolved: Resolved) -> SensitivityOut | None:
    asked = resolved.document.sensitivity
    if asked is None:
        return None
    try:
        return sensitivity_of(resolved.scenario, asked)
    except InvalidScenario as error:
        of_scenario = [fault for fault in error.problems if fault.pointer == "/draws"]
        if of_scenario:
            raise refused(of_scenario, resolved.document) from error
        faults = [
            FieldFault(pointer=f"/sensitivity{fault.pointer}", code=fault.code, detail=fault.detail)
            for fault in error.problems
        ]
        raise InvalidError(faults[0].detail, errors=faults) from error


def _decoded(base: dict[str, Any], document: EvaluationIn) -> Scenario:
    try:
        return decode_scenario(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        raise refused(error.problems, document) from error


def refused(faults: Iterable[Fault], document: AboutScenario) -> InvalidError:
    """Point at the parts of the request that the faults of its scenario came from."""
    inline = document.scenario is not None
    errors = [placed(fault, document.overrides, inline=inline) for fault in faults]
    return InvalidError(
        errors[0].detail if len(errors) == 1 else f"{len(errors)} values are refused",
        problem="invalid-scenario",
        errors=errors,
    )
