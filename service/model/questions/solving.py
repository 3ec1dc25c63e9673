"""Inverse questions: the extreme value of one input for which a result keeps a promise.

A few dozen values are evaluated at a time; between the last that keeps it and its neighbour that
does not, the next ones are placed. Whatever the result does elsewhere, both neighbours have been
evaluated. Random numbers are those of the scenario's seed at every value, so that sampled results
move with the input and not by chance.
"""

from collections.abc import Iterator

import numpy as np

from service.model.fields import Scenario
from service.model.problems import InvalidScenario, Problem
from service.model.questions.solving_questions import (
    DEFAULT_TOLERANCE,
    Place,
    Question,
    Seek,
    Solution,
    Target,
)
from service.model.questions.solving_search import Search

__all__ = ["DEFAULT_TOLERANCE", "Place", "Question", "Seek", "Solution", "Target", "solve"]


def solve(scenario: Scenario, question: Question) -> Solution:
    """Answer the question; the scenario may break rules that another value would keep.

    Raises InvalidScenario for a path or bounds that cannot be (pointers below `/unknown`), a
    column that the scenario does not have (`/target/column`), and, with the fault of the scenario
    itself, where every value breaks a rule.
    """
    search = Search(scenario, question)
    search.look_at(search.range.first_look())
    if np.isnan(search.targets).all():
        detail = f"{question.target.column} is null for this scenario, whatever {question.path} is"
        fault = Problem(pointer="/target/column", code="not_computed", detail=detail)
        raise InvalidScenario([fault])
    search.zoom()
    if not search.holding.any():
        return _not_found(search)
    while inside := search.inside_of_gap():
        search.look_at(inside)
    return _found(search)


def _found(search: Search) -> Solution:
    best, outwards = search.best, search.outwards
    has_neighbor = 0 <= outwards < len(search.values)
    at, *rest = search.places([best, outwards] if has_neighbor else [best])
    question = search.question
    end = None
    if not has_neighbor:
        end = search.range.above if question.seek == "largest" else search.range.below
    said = f"{at.value} is the {question.seek} {question.path} with {question.target.said()}"
    here = f"there it is {at.target:.12g}"
    if end is not None:
        detail = f"{said}: {here}, and the range ends: {end.detail}"
    else:
        detail = f"{said}: {here}, at {rest[0].value} it is {rest[0].target:.12g}"
    return Solution(
        at=at,
        neighbor=rest[0] if rest else None,
        nearest=None,
        end=end,
        is_monotone=search.is_monotone,
        evaluations=len(search.values),
        tolerance=0.0 if search.range.step else question.tolerance,
        warnings=tuple(_warnings(search)),
        detail=detail,
    )


def _not_found(search: Search) -> Solution:
    question, values = search.question, search.values
    place = search.nearest
    (nearest,) = search.places([place])
    detail = (
        f"no {question.path} from {values[0]} to {values[-1]} has {question.target.said()}: "
        f"it comes nearest at {nearest.value}, where it is {nearest.target:.12g}"
    )
    end = {0: search.range.below, len(values) - 1: search.range.above}.get(place)
    if end is not None:
        detail += f", and the range ends: {end.detail}"
    return Solution(
        at=None,
        neighbor=None,
        nearest=nearest,
        end=end,
        is_monotone=search.is_monotone,
        evaluations=len(values),
        tolerance=0.0 if search.range.step else question.tolerance,
        warnings=tuple(_warnings(search)),
        detail=detail,
    )


def _warnings(search: Search) -> Iterator[Problem]:
    question, values = search.question, search.values
    column, path = question.target.column, question.path
    if not search.is_monotone:
        detail = (
            f"{column} rises and falls with {path} between {values[0]} and {values[-1]}: of "
            f"{len(values)} values the {question.seek} was taken, and others may lie between them"
        )
        yield Problem(pointer="/target/column", code="not_monotone", detail=detail)
    elif search.is_flat:
        detail = f"{column} does not move with {path} between {values[0]} and {values[-1]}"
        yield Problem(pointer="/unknown/path", code="no_effect", detail=detail)
