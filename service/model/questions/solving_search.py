"""Values of an input that were looked at, and where to look next."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.model.answer_parts import PART_COLUMNS
from service.model.columns import Columns, Floats, columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.questions.moved_columns import Number, moved
from service.model.questions.sampling import (
    is_sampled,
    refuse_long_recursions,
    standard_error,
    without_spread,
)
from service.model.questions.solving_domain import moves_plans, range_of
from service.model.questions.solving_questions import Place, Question
from service.model.questions.solving_range import INSIDE_LONG, Range
from service.model.rank_counts import independent_ranks
from service.model.results import COLUMN_NAMES

ROUND_OFF = 1e-9
"""Relative; a smaller rise or fall of the result is none."""
MISSED = 1e-12
"""Of the threshold: a whole number whose result misses it by less keeps the promise."""
SIGNIFICANT = 3.0
"""Standard errors; the same where results are sampled."""
ZOOMS = 6
"""Looks around the nearest value where no value of the first look keeps the promise."""


class Search:
    """What was looked at, by ascending value."""

    def __init__(self, scenario: Scenario, question: Question) -> None:
        self.question = question
        self._base = columns_of(scenario)
        found = range_of(scenario, question.path, question.minimum, question.maximum)
        ends = [(question.path, value) for value in (found.lowest, found.highest)]
        searched = without_spread(moved(self._base, ends), question.target.column)
        takes_long = is_sampled(searched) or _has_many_sources(self._base)
        takes_long = takes_long or moves_plans(scenario, question.path)
        self.range: Range = replace(found, takes_long=takes_long)
        self._refuse_long()
        self.values: list[Number] = []
        self.targets: Floats = np.empty(0)
        self.errors: Floats = np.empty(0)

    def _refuse_long(self) -> None:
        """What a first look and as many values as the tolerance may ask for would simulate."""
        looked = self.range.first_look()
        columns = self._columns(looked)
        later = self.range.looks(self.question.tolerance) * INSIDE_LONG
        refuse_long_recursions(columns, 1 + later / len(looked))

    def _columns(self, values: list[Number]) -> Columns:
        columns = moved(self._base, [(self.question.path, value) for value in values])
        return without_spread(columns, self.question.target.column)

    @property
    def holding(self) -> NDArray[np.bool_]:
        """Whether the promise is kept at each value."""
        # Between real numbers there is always one that keeps it for sure.
        missed = MISSED if self.range.step else 0.0
        return self.question.target.holds(self.targets, missed)

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
        column = self.question.target.column
        found = evaluate(
            self._columns(values),
            with_spread=column in PART_COLUMNS["spread"],
            with_causes=column in PART_COLUMNS["causes"],
            with_quantiles=column in PART_COLUMNS["quantiles"],
        ).columns
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


def _has_many_sources(base: Columns) -> bool:
    """Whether factors multiply: one source alone takes a hundredth of the time."""
    counts = independent_ranks(base).values()
    return sum(not np.isnan(ranks[0]) for ranks in counts) > 1
