"""One step of a pipeline, operation by operation, answered at once; nothing is stored."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Overrides, ProfileReference, ScenarioObject
from service.jobs.planning import placed, resolve_base
from service.model import MODEL_VERSION
from service.model.fields import MAX_GPUS, Scenario
from service.model.pipeline_timeline import timeline_of
from service.model.problems import InvalidScenario
from service.model.scenario import apply_overrides, decode_scenario, full
from service.model.timeline_documents import Draw, Timeline

OF_THE_QUESTION = ("/replica", "/draw")


class TimelineIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario with a pipeline, inline or of a profile, and which step of it."""

    scenario: ScenarioObject | None = None
    profile: ProfileReference | None = None
    overrides: Overrides = {}
    draw: (
        Annotated[
            Draw,
            Meta(
                description="`nominal`: everything at nominal speed; `drawn`: one step by the "
                "scenario's `seed`, the same as in `ranks` of an evaluation, with slow GPUs where "
                "their `placement` says, random ones on the first that are free. Default: drawn "
                "where GPUs differ or anything varies."
            ),
        ]
        | None
    ) = None
    replica: (
        Annotated[
            int,
            Meta(ge=0, lt=MAX_GPUS, description="Default: the one that the step waits for."),
        ]
        | None
    ) = None


class TimelineOut(Timeline, frozen=True, kw_only=True):
    """One replica in one step; all times are ms from the start of the step."""

    model_version: str
    scenario: Annotated[
        ScenarioObject, Meta(description="The scenario as computed, every default written out.")
    ]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that can be computed, and which step of it is asked for."""

    scenario: Scenario
    document: TimelineIn


def ask_stored(connection: Connection, actor: Actor, document: TimelineIn) -> Asked:
    """About a scenario that may name a profile; raises `InvalidError` with every fault."""
    _, base = resolve_base(connection, actor, document.profile, document.scenario)
    return _asked(base, document)


def ask_inline(document: TimelineIn) -> Asked | None:
    """About a scenario that needs no database; None when it does."""
    if document.scenario is None or document.profile is not None:
        return None
    return _asked(document.scenario, document)


def answer(asked: Asked) -> TimelineOut:
    """The step; raises `InvalidError` with the place of what cannot be shown."""
    document = asked.document
    try:
        found = timeline_of(asked.scenario, draw=document.draw, replica=document.replica)
    except InvalidScenario as error:
        raise _refused(error, document) from error
    return TimelineOut(
        **{name: getattr(found, name) for name in Timeline.__struct_fields__},
        model_version=MODEL_VERSION,
        scenario=full(asked.scenario),
    )


def _asked(base: dict[str, Any], document: TimelineIn) -> Asked:
    try:
        scenario = decode_scenario(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        raise _refused(error, document) from error
    return Asked(scenario=scenario, document=document)


def _refused(error: InvalidScenario, document: TimelineIn) -> InvalidError:
    inline = document.scenario is not None
    errors = [
        FieldFault(pointer=fault.pointer, code=fault.code, detail=fault.detail)
        if fault.pointer in OF_THE_QUESTION
        else placed(fault, document.overrides, inline=inline)
        for fault in error.problems
    ]
    of_question = all(fault.pointer in OF_THE_QUESTION for fault in error.problems)
    return InvalidError(
        errors[0].detail if len(errors) == 1 else f"{len(errors)} values are refused",
        problem="invalid-input" if of_question else "invalid-scenario",
        errors=errors,
    )
