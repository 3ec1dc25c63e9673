"""Rules across fields, as functions of columns: for one scenario and for grid points alike.

A point that breaks a rule fails alone with its reason (design page "The model", section 11).
"""

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns
from service.model.fields import Scenario
from service.model.problems import Problem
from service.model.rulebook.rule import Mask
from service.model.rulebook.rules_of_exchange import EXCHANGE_RULES
from service.model.rulebook.rules_of_jobs import JOB_RULES
from service.model.rulebook.rules_of_laws import LAW_RULES
from service.model.rulebook.rules_of_recursion import TOO_MANY_RANK_STEPS
from service.model.rulebook.rules_of_sizes import (
    SIZE_RULES,
    STANDING_BY_IN_NODES,
    TOO_MANY_SLOW_GPUS,
)
from service.model.rulebook.rules_of_sources import CV_TOO_LARGE, SOURCE_RULES
from service.model.rulebook.rules_of_waiting import WAITING_RULES
from service.model.waiting import needs_recursion

# Appended to, never reordered: stored chunks hold positions.
_RULES = (
    TOO_MANY_SLOW_GPUS,
    CV_TOO_LARGE,
    *SIZE_RULES,
    *SOURCE_RULES,
    *JOB_RULES,
    *LAW_RULES,
    STANDING_BY_IN_NODES,
    *EXCHANGE_RULES,
    *WAITING_RULES,
    TOO_MANY_RANK_STEPS,
)

FAILURES = ("", *(rule.code for rule in _RULES))
"""Codes of `Results.failure`, by position; 0 is a computed point."""


def failures_by_rule(columns: Columns) -> dict[int, Mask]:
    """For each rule, (points,) whether it is broken.

    How long a simulation takes is known only of points that break no other rule.
    """
    kept = np.zeros(columns.num_points, dtype=np.bool_)
    broken_by: dict[int, Mask] = {}
    some = kept.copy()
    for code, rule in enumerate(_RULES, start=1):
        if rule is TOO_MANY_RANK_STEPS:
            asked = np.flatnonzero(needs_recursion(columns) & ~some)
            broken = kept.copy()
            if len(asked):
                broken[asked] = rule.broken(columns.part(asked))
        elif rule.about and columns.lacks(rule.about):
            broken = kept
        else:
            broken = rule.broken(columns)
            some |= broken
        broken_by[code] = broken
    return broken_by


def failures(columns: Columns) -> NDArray[np.int8]:
    """(points,) the first broken rule, as a position in FAILURES; 0 where none is."""
    found = np.zeros(columns.num_points, dtype=np.int8)
    for code, broken in failures_by_rule(columns).items():
        if np.count_nonzero(broken):
            found[broken & (found == 0)] = code
    return found


def describe_failure(code: int, scenario: Scenario) -> Problem:
    """The sentence for a scenario that breaks rule number `code`."""
    return _RULES[code - 1].problem(scenario)
