"""Inverse questions and their answers."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Floats
from service.model.problems import Problem
from service.model.questions.moved_columns import Number
from service.model.questions.solving_range import End

DEFAULT_TOLERANCE = 1e-9

Seek = Literal["largest", "smallest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A promise about an output column: `at_least` a number, or at most it."""

    column: str
    threshold: float
    at_least: bool

    def holds(self, values: Floats, round_off: float = 0.0) -> NDArray[np.bool_]:
        """Whether each keeps it; what was not computed does not.

        `round_off` is the share of the threshold by which a value may miss it.
        """
        slack = round_off * abs(self.threshold)
        kept: NDArray[np.bool_] = (
            values >= self.threshold - slack if self.at_least else values <= self.threshold + slack
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
    neighbor   its neighbour outwards, which does not; None where the range ends
    nearest    where none does, the value where the column comes nearest to the promise
    end        where the range ends at the answer, or at the nearest value, why
    detail     all of it as a sentence
    """

    at: Place | None
    neighbor: Place | None
    nearest: Place | None
    end: End | None
    is_monotone: bool
    evaluations: int
    tolerance: float
    warnings: tuple[Problem, ...]
    detail: str
