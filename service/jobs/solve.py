"""An inverse question about one scenario, answered at once; nothing is stored."""

import math
from typing import Any

import msgspec

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Notice
from service.jobs.evaluations import result_of
from service.jobs.planning import placed, resolve_base
from service.jobs.solve_documents import QuestionIn, RangeEnd, SolvedAt, SolveIn, SolveOut
from service.model import MODEL_VERSION
from service.model.fields import Scenario
from service.model.problems import InvalidScenario, Problem
from service.model.questions.solving import Place, Question, Solution, Target, solve
from service.model.scenario import apply_overrides, decode_fields, full

OF_THE_QUESTION = ("/unknown", "/target")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that can be decoded, and the question about it."""

    scenario: Scenario
    document: SolveIn


def ask_stored(connection: Connection, actor: Actor, document: SolveIn) -> Asked:
    """A question about a scenario that may name a profile; raises `InvalidError`."""
    _, base = resolve_base(connection, actor, document.profile, document.scenario)
    return _asked(base, document)


def ask_inline(document: SolveIn) -> Asked | None:
    """A question that needs no database; None when it does."""
    if document.scenario is None or document.profile is not None:
        return None
    return _asked(document.scenario, document)


def answer_question(asked: Asked) -> SolveOut:
    """Find the value; raises `InvalidError` with the place of what cannot be asked."""
    document = asked.document
    try:
        return solved(asked.scenario, document)
    except InvalidScenario as error:
        raise _refused(error, document) from error


def solved(scenario: Scenario, document: QuestionIn) -> SolveOut:
    """The answer about a decoded scenario.

    Raises InvalidScenario: pointers below `/unknown` and `/target` are of the question, others of
    the scenario.
    """
    found = solve(scenario, _question(document))
    at = found.at
    return SolveOut(
        found=at is not None,
        value=None if at is None else at.value,
        detail=found.detail,
        at_value=_place(at),
        at_neighbor=_place(found.neighbor),
        nearest=_place(found.nearest),
        range_end=_end(found),
        is_monotone=found.is_monotone,
        evaluations=found.evaluations,
        tolerance=found.tolerance,
        scenario=None if at is None else _scenario_at(scenario, document.unknown.path, at),
        warnings=[
            Notice(pointer=warning.pointer, code=warning.code, detail=warning.detail)
            for warning in found.warnings
        ],
        model_version=MODEL_VERSION,
    )


def _question(document: QuestionIn) -> Question:
    target = document.target
    threshold = target.at_most if target.at_least is None else target.at_least
    if threshold is None or None not in {target.at_least, target.at_most}:
        detail = "give exactly one of at_least and at_most"
        raise InvalidScenario([Problem(pointer="/target", code="one_threshold", detail=detail)])
    return Question(
        path=document.unknown.path,
        seek=document.seek,
        target=Target(
            column=target.column, threshold=threshold, at_least=target.at_least is not None
        ),
        minimum=document.unknown.minimum,
        maximum=document.unknown.maximum,
        tolerance=document.tolerance,
    )


def _place(place: Place | None) -> SolvedAt | None:
    if place is None:
        return None
    return SolvedAt(
        value=place.value,
        target=_finite(place.target),
        standard_error=_finite(place.standard_error),
        result=result_of(place.columns),
    )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _end(found: Solution) -> RangeEnd | None:
    end = found.end
    return None if end is None else RangeEnd(value=end.value, code=end.code, detail=end.detail)


def _scenario_at(scenario: Scenario, path: str, at: Place) -> dict[str, Any]:
    return full(decode_fields(apply_overrides(full(scenario), {path: at.value})))


def _asked(base: dict[str, Any], document: SolveIn) -> Asked:
    try:
        # Rules across fields may be kept by another value of the unknown only.
        scenario = decode_fields(apply_overrides(base, document.overrides))
    except InvalidScenario as error:
        raise _refused(error, document) from error
    return Asked(scenario=scenario, document=document)


def _refused(error: InvalidScenario, document: SolveIn) -> InvalidError:
    inline = document.scenario is not None
    of_question = [fault.pointer.startswith(OF_THE_QUESTION) for fault in error.problems]
    errors = [
        FieldFault(pointer=fault.pointer, code=fault.code, detail=fault.detail)
        if asked
        else placed(fault, document.overrides, inline=inline)
        for fault, asked in zip(error.problems, of_question, strict=True)
    ]
    detail = errors[0].detail if len(errors) == 1 else f"{len(errors)} values are refused"
    problem = "invalid-input" if all(of_question) else "invalid-scenario"
    return InvalidError(detail, problem=problem, errors=errors)
