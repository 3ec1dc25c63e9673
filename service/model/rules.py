"""Rules across fields, as functions of columns: for one scenario and for grid points alike.

A point that breaks a rule fails alone with its reason (design page "The model", section 11).
"""

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns
from service.model.fields import Scenario
from service.model.pipelines import are_stages_simulated
from service.model.problems import Problem
from service.model.rulebook.rule import Mask
from service.model.rulebook.rules_of_exchange import EXCHANGE_RULES
from service.model.rulebook.rules_of_jobs import JOB_RULES
from service.model.rulebook.rules_of_laws import LAW_RULES
from service.model.rulebook.rules_of_pipelines import PIPELINE_RULES
from service.model.rulebook.rules_of_recursion import (
    TOO_MANY_OPERATIONS_SAMPLED,
    TOO_MANY_PLACEMENTS,
    TOO_MANY_RANK_STEPS,
)
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
    *PIPELINE_RULES,
    TOO_MANY_PLACEMENTS,
    TOO_MANY_OPERATIONS_SAMPLED,
)
# What a simulation takes is known only of points that break no other rule.
_LATE = {
    TOO_MANY_RANK_STEPS.code: needs_recursion,
    TOO_MANY_PLACEMENTS.code: are_stages_simulated,
    TOO_MANY_OPERATIONS_SAMPLED.code: are_stages_simulated,
}

FAILURES = ("", *(rule.code for rule in _RULES))
"""Codes of `Results.failure`, by position; 0 is a computed point."""


def failures_by_rule(columns: Columns) -> dict[int, Mask]:
    """For each rule, (points,) whether it is broken."""
    kept = np.zeros(columns.num_points, dtype=np.bool_)
    broken_by = dict.fromkeys(range(1, len(_RULES) + 1), kept)
    some = kept.copy()
    for code, rule in enumerate(_RULES, start=1):
        if rule.code not in _LATE and not (rule.about and columns.lacks(rule.about)):
            broken_by[code] = rule.broken(columns)
            some |= broken_by[code]
    for code, rule in enumerate(_RULES, start=1):
        if rule.code in _LATE:
            asked = np.flatnonzero(~some)
            sound = columns if len(asked) == columns.num_points else columns.part(asked)
            asked = asked[_LATE[rule.code](sound)]
            if len(asked):
                broken_by[code] = kept.copy()
                broken_by[code][asked] = rule.broken(columns.part(asked))
                some |= broken_by[code]
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
