"""The same scenario under other families of the same cv: how much the choice of a tail matters.

Design page "The model", section 3: the tail is a choice, and the slowest of many GPUs lives in it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from service.model.active import LAW_PATHS
from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario, Problem
from service.model.scenario import apply_overrides, decode_scenario, full

FAMILIES = ("normal", "lognormal", "gamma")
LOST = "gpu_hours_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailChoice:
    """What the scenario loses with all its sources of one family; NaN where a rule refuses it."""

    family: str
    lost: float
    step_mean_ms: float
    reason: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailChoices:
    """All families; sources without a cv (tables of quantiles) are kept as they are."""

    families: tuple[TailChoice, ...]
    replaced: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def lowest(self) -> float:
        """Of what the families lose; NaN where none can be computed."""
        return min(self._computed, default=np.nan)

    @property
    def highest(self) -> float:
        """The same."""
        return max(self._computed, default=np.nan)

    @property
    def _computed(self) -> list[float]:
        return [choice.lost for choice in self.families if choice.reason is None]


def tail_choices(scenario: Scenario) -> TailChoices:
    """The scenario with each of its random sources normal, lognormal and gamma."""
    document = full(scenario)
    sources = {
        source: law
        for source, path in LAW_PATHS.items()
        if (law := _at(document, path)) is not None
    }
    cvs = {source: law["cv"] for source, law in sources.items() if "cv" in law}
    return TailChoices(
        families=tuple(_choice(document, cvs, family) for family in FAMILIES),
        replaced=tuple(cvs),
        kept=tuple(source for source in sources if source not in cvs),
    )


def _at(document: dict[str, Any], path: str) -> dict[str, Any] | None:
    """The distribution at the path; None where there is none, or nothing that it were part of."""
    above, _, name = path.partition(".")
    part = document[above]
    return None if part is None else part[name]


def _choice(document: dict[str, Any], cvs: dict[str, float], family: str) -> TailChoice:
    laws = {LAW_PATHS[source]: {"kind": family, "cv": cv} for source, cv in cvs.items()}
    try:
        scenario = decode_scenario(apply_overrides(document, laws))
    except InvalidScenario as error:
        reason = error.problems[0]
        return TailChoice(family=family, lost=np.nan, step_mean_ms=np.nan, reason=reason)
    columns = columns_of(scenario)
    found = evaluate(columns, with_spread=False, with_causes=False, with_quantiles=False).columns
    return TailChoice(
        family=family,
        lost=float(found[LOST][0]),
        step_mean_ms=float(found["step_mean_ms"][0]),
    )
