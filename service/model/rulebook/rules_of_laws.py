"""Rules about single distributions, and about what takes too many cases to sum over."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from service.model.active import LAW_PATHS, SOURCES, is_active, occupancy
from service.model.columns import COUNT, Columns, Floats
from service.model.distributions import EMPIRICAL, FAMILIES
from service.model.fields import Scenario
from service.model.leaves import SWITCH
from service.model.rank_counts import independent_ranks
from service.model.rulebook.declared_laws import law_of_source, pointer_of
from service.model.rulebook.rule import Mask, Rule
from service.model.slowest.compositions import num_compositions
from service.model.slowest.episodes import MAX_STATES, num_states
from service.model.stage_sizes import has_pipeline

SHIFTED_GAMMA = FAMILIES.index("shifted_gamma")
MAX_COMPOSITIONS = 512
_ALLOWED = 1 + SWITCH.index("true")


def beyond_tail(columns: Columns, source: str) -> Mask:
    """(points,) whether more ranks draw from an empirical law than it has observations."""
    above = LAW_PATHS[source]
    found = np.zeros(columns.num_points, dtype=np.bool_)
    kinds = columns.values[f"{above}.kind"]
    rows = np.flatnonzero(columns[f"{above}.kind"] == EMPIRICAL) if EMPIRICAL in kinds else ()
    if len(rows):
        tables = columns[f"{above}.quantiles"][rows].tolist()
        observations = np.array([len(table) - 1 for table in tables])
        found[rows] = independent_ranks(columns)[source][rows] > observations
    return found


def extrapolation(columns: Columns) -> Floats:
    """(points,) 1 where some slowest rank lies beyond the tail that was observed, else 0."""
    found = np.zeros(columns.num_points)
    for source in LAW_PATHS:
        found[beyond_tail(columns, source)] = 1.0
    return found


def _refused_tail(source: str) -> Callable[[Columns], Mask]:
    def broken(columns: Columns) -> Mask:
        allowed: Mask = columns[f"{LAW_PATHS[source]}.allow_extrapolation"] == _ALLOWED
        return beyond_tail(columns, source) & ~allowed

    return broken


def _say_refused_tail(source: str) -> Callable[[Scenario], tuple[str, str]]:
    def said(scenario: Scenario) -> tuple[str, str]:
        law: Any = law_of_source(scenario, source)
        observations = len(law.quantiles) - 1
        detail = (
            f"{observations} intervals of quantiles stand for so many observations, but more ranks "
            f"draw from them, so the slowest lies beyond what was observed; give the quantiles of "
            "more observations, or allow_extrapolation to compute it with the observed maximum as "
            "the limit"
        )
        return f"{pointer_of(source)}/quantiles", detail

    return said


def _negative(source: str) -> Callable[[Columns], Mask]:
    above = LAW_PATHS[source]

    def broken(columns: Columns) -> Mask:
        shifted: Mask = columns[f"{above}.kind"] == SHIFTED_GAMMA
        return shifted & (2 * columns[f"{above}.cv"] > columns[f"{above}.skew"])

    return broken


def _say_negative(source: str) -> Callable[[Scenario], tuple[str, str]]:
    def said(scenario: Scenario) -> tuple[str, str]:
        law: Any = law_of_source(scenario, source)
        lowest = 1 - 2 * law.cv / law.skew
        detail = (
            f"with cv {law.cv} and skew {law.skew} the smallest factor would be {lowest:.3g}, "
            "below 0; skew must be at least twice cv"
        )
        return f"{pointer_of(source)}/skew", detail

    return said


def _classes(columns: Columns) -> Floats:
    """(points,) kinds of GPUs to tell apart: speeds, each with and without an episode."""
    speeds = (columns.num_nominal > 0) + (columns[COUNT] > 0).sum(axis=1)
    classes: Floats = speeds * np.where(occupancy(columns) > 0, 2, 1)
    return classes


def _block_size(columns: Columns) -> Floats:
    """(points,) GPUs that share a draw, at most."""
    of_node = np.where(is_active(columns, "node"), columns["gpus_per_node"], 1)
    of_replica = np.where(is_active(columns, "replica"), columns["tensor_parallel_size"], 1)
    return np.maximum(of_node, of_replica)


def _too_many_compositions(columns: Columns) -> Mask:
    # GPUs of pipelines are drawn one by one, in whatever blocks.
    size = np.where(has_pipeline(columns), 1, _block_size(columns))
    if (size == 1).all():
        return np.zeros(columns.num_points, dtype=np.bool_)
    classes = _classes(columns)
    ways = special.comb(size + classes - 1, classes - 1)
    broken: Mask = (size > 1) & (ways > MAX_COMPOSITIONS)
    return broken


def _say_too_many_compositions(scenario: Scenario) -> tuple[str, str]:
    variability = scenario.variability
    size = scenario.tensor_parallel_size if variability.node is None else scenario.gpus_per_node
    classes = (1 + len(scenario.slow_groups)) * (1 if variability.episodes is None else 2)
    detail = (
        f"{classes} kinds of GPUs (speeds, with and without an episode) fall on blocks of {size} "
        f"in some {num_compositions(classes, size)} ways, at most {MAX_COMPOSITIONS} are "
        "computed; state fewer slow groups"
    )
    return "/slow_groups", detail


def _too_many_states(columns: Columns) -> Mask:
    rows = np.flatnonzero((occupancy(columns) > 0) & ~has_pipeline(columns))
    broken = np.zeros(columns.num_points, dtype=np.bool_)
    if len(rows):
        part = columns.part(rows)
        sizes = np.vstack([part.num_nominal, part[COUNT].T]).astype(np.float64)
        share = np.minimum(occupancy(part), 1.0)
        broken[rows] = num_states(np.maximum(sizes, 0.0), share) > MAX_STATES
    return broken


def _say_too_many_states(scenario: Scenario) -> tuple[str, str]:
    detail = (
        f"episodes on GPUs of {1 + len(scenario.slow_groups)} speeds make more than {MAX_STATES} "
        "states of the cluster; state fewer slow groups"
    )
    return "/slow_groups", detail


def tail_rule(source: str) -> Rule:
    """No more ranks draw from observations than there are, unless the user allows it."""
    about = f"{LAW_PATHS[source]}.kind"
    return Rule("beyond_observed_tail", _refused_tail(source), _say_refused_tail(source), about)


def negative_rule(source: str) -> Rule:
    """No factor is below 0."""
    about = f"{LAW_PATHS[source]}.kind"
    return Rule("factor_below_zero", _negative(source), _say_negative(source), about)


LAW_RULES = (
    *(tail_rule(source) for source in SOURCES),
    *(negative_rule(source) for source in SOURCES),
    Rule("too_many_compositions", _too_many_compositions, _say_too_many_compositions),
    Rule(
        "too_many_states", _too_many_states, _say_too_many_states, "variability.episodes.severity"
    ),
)
