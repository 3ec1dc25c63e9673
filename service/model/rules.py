"""Rules across fields, as functions of columns: for one scenario and for grid points alike.

A point that breaks a rule fails alone with its reason (design page "The model", section 11).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns
from service.model.distributions import FAMILIES, MAX_CV_NORMAL
from service.model.fields import Scenario
from service.model.problems import Problem

Mask = NDArray[np.bool_]
NORMAL = FAMILIES.index("normal")

FAILURES = ("", "too_many_slow_gpus", "cv_too_large_for_normal")
"""Codes of `Results.failure`, by position; 0 is a computed point. Appended to, never reordered."""


def failures_by_rule(columns: Columns) -> dict[int, Mask]:
    """For each rule, (points,) whether it is broken."""
    return {code: rule(columns) for code, rule in _RULES.items()}


def failures(columns: Columns) -> NDArray[np.int8]:
    """(points,) the first broken rule, as a position in FAILURES; 0 where none is."""
    found = np.zeros(columns.num_points, dtype=np.int8)
    for code, broken in failures_by_rule(columns).items():
        found[broken & (found == 0)] = code
    return found


def describe_failure(code: int, scenario: Scenario) -> Problem:
    """The sentence for a scenario that breaks rule number `code`."""
    return _SENTENCES[code](scenario)


def _too_many_slow_gpus(columns: Columns) -> Mask:
    broken: Mask = columns.num_nominal < 0
    return broken


def _cv_too_large_for_normal(columns: Columns) -> Mask:
    broken: Mask = (columns.transient_family == NORMAL) & (columns.transient_cv > MAX_CV_NORMAL)
    return broken


def _say_too_many(scenario: Scenario) -> Problem:
    slow = sum(group.count for group in scenario.slow_groups)
    one = len(scenario.slow_groups) == 1
    return Problem(
        pointer="/slow_groups/0/count" if one else "/slow_groups",
        code="too_many_slow_gpus",
        detail=f"{slow} slow GPUs, but num_gpus is {scenario.num_gpus}",
    )


def _say_cv(scenario: Scenario) -> Problem:
    transient = scenario.variability.transient
    cv = 0.0 if transient is None else transient.cv
    return Problem(
        pointer="/variability/transient/cv",
        code="cv_too_large_for_normal",
        detail=f"cv is {cv}, but a normal factor allows at most {MAX_CV_NORMAL}, above which it "
        "would often be negative; use lognormal",
    )


_RULES: dict[int, Callable[[Columns], Mask]] = {
    1: _too_many_slow_gpus,
    2: _cv_too_large_for_normal,
}
_SENTENCES: dict[int, Callable[[Scenario], Problem]] = {1: _say_too_many, 2: _say_cv}
