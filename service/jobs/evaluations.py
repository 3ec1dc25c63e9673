"""One scenario, answered at once; nothing is stored."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from service.db.engine import Connection
from service.errors import InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import (
    Notice,
    Overrides,
    ProfileReference,
    ScenarioObject,
)
from service.jobs.output_columns import ResultColumns
from service.jobs.planning import placed, resolve_base
from service.jobs.results import shown_value
from service.model import MODEL_VERSION
from service.model.columns import columns_of
from service.model.draws import RankDraw, draw_ranks
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.results import COLUMNS
from service.model.scenario import apply_overrides, decode_scenario, full

MAX_RANKS = 4_096


class EvaluationIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario: inline, or the defaults of a profile; either may be overridden."""

    scenario: ScenarioObject | None = None
    profile: ProfileReference | None = None
    overrides: Overrides = {}
    ranks_limit: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_RANKS,
            description="Rows of the single draw, slowest rank first; 0 leaves the draw out.",
        ),
    ] = 64


class EvaluationOut(msgspec.Struct, frozen=True, kw_only=True):
    """The expected loss of the scenario, and one reproducible draw of its ranks."""

    result: ResultColumns
    ranks: RankDraw | None
    warnings: list[Notice]
    model_version: str
    scenario: Annotated[
        ScenarioObject, Meta(description="The scenario as computed, every default written out.")
    ]


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that can be computed."""

    scenario: Scenario
    ranks_limit: int


def resolve_stored(connection: Connection, actor: Actor, document: EvaluationIn) -> Resolved:
    """Resolve a scenario that may name a profile; raises `InvalidError` with every fault."""
    _, base = resolve_base(connection, actor, document.profile, document.scenario)
    return _resolved(base, document)


def resolve_inline(document: EvaluationIn) -> Resolved | None:
    """Resolve a scenario that needs no database; None when it does."""
    if document.scenario is None or document.profile is not None:
        return None
    return _resolved(document.scenario, document)


def answer(resolved: Resolved) -> EvaluationOut:
    """Compute the scenario and one draw of it."""
    columns = evaluate(columns_of(resolved.scenario)).columns
    limit = resolved.ranks_limit
    return EvaluationOut(
        result=ResultColumns(
            **{column.name: shown_value(column.name, columns[column.name][0]) for column in COLUMNS}
        ),
        ranks=draw_ranks(resolved.scenario, limit) if limit else None,
        # Only axes are rounded with a warning so far.
        warnings=[],
        model_version=MODEL_VERSION,
        scenario=full(resolved.scenario),
    )


def _resolved(base: dict[str, Any], document: EvaluationIn) -> Resolved:
    try:
        scenario = decode_scenario(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        raise _refused(error.problems, document) from error
    return Resolved(scenario=scenario, ranks_limit=document.ranks_limit)


def _refused(faults: Any, document: EvaluationIn) -> InvalidError:
    inline = document.scenario is not None
    errors = [placed(fault, document.overrides, inline=inline) for fault in faults]
    return InvalidError(
        errors[0].detail if len(errors) == 1 else f"{len(errors)} values are refused",
        problem="invalid-scenario",
        errors=errors,
    )
