"""What a rule across fields is made of."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns
from service.model.fields import Scenario
from service.model.problems import Problem

Mask = NDArray[np.bool_]
Said = tuple[str, str]
"""A pointer and a sentence."""


class Rule(NamedTuple):
    """One rule: its code, where (points,) it is broken, and what is then wrong with a scenario.

    `said` gives the pointer and the sentence. Points that lack the leaf `about`, where it is
    given, cannot break it.
    """

    code: str
    broken: Callable[[Columns], Mask]
    said: Callable[[Scenario], Said]
    about: str | None = None

    def problem(self, scenario: Scenario) -> Problem:
        """The fault of a scenario that breaks the rule."""
        pointer, detail = self.said(scenario)
        return Problem(pointer=pointer, code=self.code, detail=detail)
