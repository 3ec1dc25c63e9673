"""Inverse questions: the extreme value of one input for which a result keeps a promise.

A few dozen values are evaluated at a time; between the last that keeps it and its neighbour that
does not, the next ones are placed. Whatever the result does elsewhere, both neighbours have been
evaluated. Random numbers are those of the scenario's seed at every value, so that sampled results
move with the input and not by chance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Floats, columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.moved_columns import Number, moved
from service.model.problems import InvalidScenario, Problem
from service.model.results import COLUMN_NAMES
from service.model.sampling import standard_error, without_spread
from service.model.solving_domain import range_of
from service.model.solving_range import End, Range

DEFAULT_TOLERANCE = 1e-9
ROUND_OFF = 1e-9
"""Relative; a smaller rise or fall of the result is none."""
SIGNIFICANT = 3.0
"""Standard errors; the same where results are sampled."""
ZOOMS = 6
"""Looks around the nearest value where no value of the first look keeps the promise."""

Seek = Literal["largest", "smallest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A promise about an output column: `at_least` a number, or at most it."""

    column: str
    threshold: float
    at_least: bool

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        """Whether each keeps it; what was not computed does not."""
        kept: NDArray[np.bool_] = (
            values >= self.threshold if self.at_least else values <= self.threshold
        )
        return kept

    def said(self) -> str:
        """As in a sentence."""
        return f"{self.column} at {'least' if self.at_least else 'most'} {self.threshold:.12g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which extreme of the input at `path` is looked for; `tolerance` is that of real numbers."""

    path: str
    seek: Seek
    target: Target
    minimum: Number | None = None
    maximum: Number | None = None
    tolerance: float = DEFAULT_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A value, the target's column there with its standard error, and all columns, one point."""

    value: Number
    target: float
    standard_error: float
    columns: dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The answer to a question.

    at         the extreme value that keeps the promise; None where no value does
    neighbour  its neighbour outwards, which does not; None where the range ends
    nearest    where none does, the value where the column comes nearest to the promise
    end        where the range ends at the answer, or at the nearest value, why
    detail     all of it as a sentence
    """

    at: Place | None
    neighbour: Place | None
    nearest: Place | None
    end: End | None
    is_monotone: bool
    evaluations: int
    tolerance: float
    warnings: tuple[Problem, ...]
    detail: str


def solve(scenario: Scenario, question: Question) -> Solution:
    """Answer the question; the scenario may break rules that another value would keep.

    Raises InvalidScenario for a path or bounds that cannot be (pointers below `/unknown`), a
    column that the scenario does not have (`/target/column`), and, with the fault of the scenario
    itself, where every value breaks a rule.
    """
    search = _Search(scenario, question)
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


class _Search:
    """What was looked at, by ascending value."""

    def __init__(self, scenario: Scenario, question: Question) -> None:
        self.question = question
        self.range: Range = range_of(scenario, question.path, question.minimum, question.maximum)
        self._base = columns_of(scenario)
        self.values: list[Number] = []
        self.targets: Floats = np.empty(0)
        self.errors: Floats = np.empty(0)

    @property
    def holding(self) -> NDArray[np.bool_]:
        """Whether the promise is kept at each value."""
        return self.question.target.holds(self.targets)

    @property
    def is_monotone(self) -> bool:
        """Whether the column only rises or only falls with the input, as far as was seen."""
        seen = ~np.isnan(self.targets)
        targets, errors = self.targets[seen], np.nan_to_num(self.errors[seen])
        moves = np.diff(targets)
        size = np.maximum(np.abs(targets[1:]), np.abs(targets[:-1]))
        noise = ROUND_OFF * size + SIGNIFICANT * np.hypot(errors[1:], errors[:-1])
        return bool((moves >= -noise).all() or (moves <= noise).all())

    @property
    def is_flat(self) -> bool:
        """Whether the column does not move at all."""
        low, high = np.nanmin(self.targets), np.nanmax(self.targets)
        return bool(high - low <= ROUND_OFF * max(abs(low), abs(high)))

    def look_at(self, values: list[Number]) -> None:
        """Evaluate new values."""
        columns = moved(self._base, [(self.question.path, value) for value in values])
        column = self.question.target.column
        found = evaluate(without_spread(columns, column)).columns
        targets = np.concatenate([self.targets, found[column].astype(np.float64)])
        errors = np.concatenate([self.errors, standard_error(column, found)])
        listed = [*self.values, *values]
        order = sorted(range(len(listed)), key=listed.__getitem__)
        self.values = [listed[place] for place in order]
        self.targets, self.errors = targets[order], errors[order]

    @property
    def best(self) -> int:
        """Position of the extreme value that keeps the promise."""
        kept = np.flatnonzero(self.holding)
        return int(kept[-1] if self.question.seek == "largest" else kept[0])

    @property
    def outwards(self) -> int:
        """Position of its neighbour in the direction that is looked into; may be none."""
        return self.best + (1 if self.question.seek == "largest" else -1)

    @property
    def nearest(self) -> int:
        """Position of the value where the column comes nearest to the promise."""
        missed = np.abs(self.targets - self.question.target.threshold)
        return int(np.nanargmin(missed))

    def inside_of_gap(self) -> list[Number]:
        """Values between the best and its neighbour; none where they need not be looked at."""
        if not 0 <= self.outwards < len(self.values):
            return []
        low, high = sorted([self.values[self.best], self.values[self.outwards]])
        if self.range.is_narrow(low, high, self.question.tolerance):
            return []
        return self.range.between(low, high)

    def zoom(self) -> None:
        """Look around the nearest value, since a peak may lie between two of the coarse look."""
        for _ in range(ZOOMS):
            place = self.nearest
            if self.holding.any() or not 0 < place < len(self.values) - 1:
                return
            inside = [
                *self.range.between(self.values[place - 1], self.values[place]),
                *self.range.between(self.values[place], self.values[place + 1]),
            ]
            if not inside:
                return
            self.look_at(inside)

    def places(self, positions: list[int]) -> list[Place]:
        """All columns at some of the values, with their spread."""
        values = [self.values[position] for position in positions]
        columns = moved(self._base, [(self.question.path, value) for value in values])
        found = evaluate(columns).columns
        return [
            Place(
                value=self.values[position],
                target=float(self.targets[position]),
                standard_error=float(self.errors[position]),
                columns={name: found[name][row : row + 1] for name in COLUMN_NAMES},
            )
            for row, position in enumerate(positions)
        ]


def _found(search: _Search) -> Solution:
    best, outwards = search.best, search.outwards
    has_neighbour = 0 <= outwards < len(search.values)
    at, *rest = search.places([best, outwards] if has_neighbour else [best])
    question = search.question
    end = None
    if not has_neighbour:
        end = search.range.above if question.seek == "largest" else search.range.below
    said = f"{at.value} is the {question.seek} {question.path} with {question.target.said()}"
    here = f"there it is {at.target:.12g}"
    if end is not None:
        detail = f"{said}: {here}, and the range ends: {end.detail}"
    else:
        detail = f"{said}: {here}, at {rest[0].value} it is {rest[0].target:.12g}"
    return Solution(
        at=at,
        neighbour=rest[0] if rest else None,
        nearest=None,
        end=end,
        is_monotone=search.is_monotone,
        evaluations=len(search.values),
        tolerance=0.0 if search.range.step else question.tolerance,
        warnings=tuple(_warnings(search)),
        detail=detail,
    )


def _not_found(search: _Search) -> Solution:
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
        neighbour=None,
        nearest=nearest,
        end=end,
        is_monotone=search.is_monotone,
        evaluations=len(values),
        tolerance=0.0 if search.range.step else question.tolerance,
        warnings=tuple(_warnings(search)),
        detail=detail,
    )


def _warnings(search: _Search) -> Iterator[Problem]:
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
