"""Rules about the sources of variability."""

from collections.abc import Callable
from typing import Any

import numpy as np

from service.model.active import LAW_PATHS, SOURCES, is_active, occupancy, spikes_are_active
from service.model.columns import Columns
from service.model.distributions import FAMILIES, MAX_CV_NORMAL
from service.model.fields import Scenario
from service.model.rulebook.declared_laws import law_of_source, pointer_of
from service.model.rulebook.rule import Mask, Rule

NORMAL = FAMILIES.index("normal")
MAX_CV_OF_PRODUCT = 0.21
"""A normal factor among others is below 0 with probability 1e-6 at this cv (z = -4.76)."""
MAX_OCCUPANCY = 0.5


def _too_large(source: str) -> Callable[[Columns], Mask]:
    above = LAW_PATHS[source]

    def broken(columns: Columns) -> Mask:
        of_normal: Mask = columns[f"{above}.kind"] == NORMAL
        return of_normal & (columns[f"{above}.cv"] > MAX_CV_NORMAL)

    return broken


def _say_too_large(source: str) -> Callable[[Scenario], tuple[str, str]]:
    def said(scenario: Scenario) -> tuple[str, str]:
        return (
            f"{pointer_of(source)}/cv",
            (
                f"cv is {_cv(scenario, source)}, but a normal factor allows at most "
                f"{MAX_CV_NORMAL}, above which it would often be negative; use lognormal"
            ),
        )

    return said


def _too_large_in_product(source: str) -> Callable[[Columns], Mask]:
    above = LAW_PATHS[source]

    def broken(columns: Columns) -> Mask:
        of_normal: Mask = columns[f"{above}.kind"] == NORMAL
        # Without a point of this kind there is nothing to count.
        if not of_normal.any():
            return of_normal
        num_active = spikes_are_active(columns).astype(np.int64)
        for name in LAW_PATHS:
            num_active = num_active + is_active(columns, name)
        return of_normal & (columns[f"{above}.cv"] > MAX_CV_OF_PRODUCT) & (num_active > 1)

    return broken


def _say_too_large_in_product(source: str) -> Callable[[Scenario], tuple[str, str]]:
    def said(scenario: Scenario) -> tuple[str, str]:
        return (
            f"{pointer_of(source)}/cv",
            (
                f"cv is {_cv(scenario, source)}, but a normal factor that is multiplied with "
                f"others allows at most {MAX_CV_OF_PRODUCT}; use lognormal"
            ),
        )

    return said


def _too_busy(columns: Columns) -> Mask:
    broken: Mask = occupancy(columns) > MAX_OCCUPANCY
    return broken


def _say_too_busy(scenario: Scenario) -> tuple[str, str]:
    episodes: Any = scenario.variability.episodes
    share = -np.expm1(-episodes.rate_per_gpu_day * episodes.mean_hours / 24)
    return (
        "/variability/episodes",
        (
            f"a GPU would be in an episode {share:.0%} of the time, at most {MAX_OCCUPANCY:.0%} "
            "are allowed; say it by slow_groups or persistent"
        ),
    )


def _nothing_to_correlate(columns: Columns) -> Mask:
    without: Mask = columns["variability.transient.kind"] == 0
    return without & (columns["variability.autocorrelation"] > 0)


def _say_nothing_to_correlate(scenario: Scenario) -> tuple[str, str]:
    return (
        "/variability/autocorrelation",
        (
            f"autocorrelation is {scenario.variability.autocorrelation}, but there is no transient "
            "variability that it could belong to"
        ),
    )


def _cv(scenario: Scenario, source: str) -> Any:
    return getattr(law_of_source(scenario, source), "cv", 0.0)


def large_rule(source: str) -> Rule:
    """A normal factor is hardly ever below 0."""
    return Rule(
        "cv_too_large_for_normal",
        _too_large(source),
        _say_too_large(source),
        f"{LAW_PATHS[source]}.kind",
    )


def large_in_product_rule(source: str) -> Rule:
    """Nor is one that is multiplied with others, and enters their logarithms."""
    return Rule(
        "cv_too_large_in_product",
        _too_large_in_product(source),
        _say_too_large_in_product(source),
        f"{LAW_PATHS[source]}.kind",
    )


CV_TOO_LARGE = large_rule("transient")

SOURCE_RULES = (
    *(large_rule(source) for source in SOURCES if source != "transient"),
    *(large_in_product_rule(source) for source in SOURCES),
    Rule("occupancy_too_high", _too_busy, _say_too_busy, "variability.episodes.severity"),
    Rule(
        "autocorrelation_without_transient",
        _nothing_to_correlate,
        _say_nothing_to_correlate,
        "variability.autocorrelation",
    ),
)
