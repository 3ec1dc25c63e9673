"""Whether standard errors of simulated steps are honest; how good the law of long memories is.

`python -m tests.soak.recursion_errors [seeds]`: for each case the deviation of every seed from the
exact mean (or from the mean over all seeds) over its own standard error; its standard deviation
should be about 1. Then excesses by the law over those simulated as they are.
"""

import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from service.model.fleet import Fleet
from service.model.laws.exponential import Exponential
from service.model.laws.source import Source
from service.model.recursion import similarity
from service.model.recursion.pattern import Pattern
from service.model.slowest.pooled import pooled_slowest
from tests.model.fleets_for_tests import one_fleet
from tests.model.recursion.simulations import rounds, simulated, stale

DRAWS = 100


class Case(NamedTuple):
    """A fleet, how it waits, and its exact mean step where one is known."""

    name: str
    fleet: Fleet
    pattern: Pattern
    exact: float | None = None


def cases() -> list[Case]:
    normal = {"transient": ("normal", 0.05)}
    lasting = {**normal, "persistent": ("normal", 0.05)}
    two = replace(
        one_fleet([(2, 1)]), transient=Source(law=Exponential, shape=np.array([[1.0], [0.0]]))
    )
    barrier = one_fleet([(32, 1)], **lasting)
    correlated = replace(one_fleet([(64, 1)], **normal), autocorrelation=np.array([0.9]))
    return [
        Case("2 exponential, s 1", two, stale(1), 5 / 4),
        Case("2 exponential, s 4", two, stale(4), 11 / 10),
        Case("32 persistent, s 0", barrier, stale(0), float(pooled_slowest(barrier).mean[0])),
        Case("64 normal, s 1", one_fleet([(64, 1)], **normal), stale(1)),
        Case("64 normal, s 8, by the law", one_fleet([(64, 1)], **normal), stale(8)),
        Case("8 normal, s 2, delay 2", one_fleet([(8, 1)], **normal), stale(2, 2.0)),
        Case("64 persistent, s 1", one_fleet([(64, 1)], **lasting), stale(1)),
        Case("one slow of 16, s 1", one_fleet([(15, 1), (1, 1.02)], **normal), stale(1)),
        Case("64 autocorrelated, H 10", correlated, rounds(10), 1.09996),
        Case(
            "16 in 4 fragments, H 40, tau 2",
            one_fleet([(16, 1)], **normal),
            rounds(40, part=2.0, fragments=4, overlap_steps=2),
        ),
        Case(
            "8 with episodes, s 1", one_fleet([(8, 1)], episodes=(0.02, 1.5), **lasting), stale(1)
        ),
    ]


def deviations(case: Case, seeds: int) -> tuple[float, float]:
    found = [simulated(case.fleet, case.pattern, seed, DRAWS) for seed in range(seeds)]
    mean = np.array([one.mean[0] for one in found])
    mean_se = np.array([one.mean_se[0] for one in found])
    # Against the mean over seeds a deviation has lost 1 of so many degrees of freedom.
    lost = 1.0 if case.exact is not None else (1 - 1 / seeds) ** 0.5
    z = (mean - (mean.mean() if case.exact is None else case.exact)) / mean_se / lost
    return float(z.mean()), float(np.sqrt(np.square(z).mean()))


def by_law(classes: list[tuple[float, float]], pattern: Pattern, seeds: int, **given: Any) -> None:
    fleet = one_fleet(classes, **given)
    excess = []
    for longer in (1.25, 1e9):
        similarity.LONGER = longer
        found = [simulated(fleet, pattern, seed, 1000).mean[0] - 1 for seed in range(seeds)]
        excess.append((np.mean(found), np.std(found, ddof=1) / seeds**0.5))
    similarity.LONGER = 1.25
    (law, law_se), (direct, direct_se) = excess
    error = law / direct * np.hypot(law_se / law, direct_se / direct)
    print(f"{classes} {given} {pattern}:")
    print(f"  {law:.5f} / {direct:.5f} = {law / direct:.3f} ± {error:.3f}", flush=True)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    for case in cases():
        if only not in case.name:
            continue
        mean, spread = deviations(case, seeds)
        print(f"{case.name:34} z: mean {mean:6.2f}, root mean square {spread:5.2f}", flush=True)
    few = max(seeds // 10, 2)
    by_law([(8, 1)], stale(2), few, transient=("normal", 0.05))
    by_law([(64, 1)], stale(3), few, transient=("normal", 0.05))
    by_law([(64, 1)], stale(12), few, transient=("lognormal", 0.3))
    by_law([(64, 1)], stale(1), few, transient=("gamma", 0.02))
    apart = rounds(100, part=1.0, fragments=2, overlap_steps=3)
    by_law([(64, 1)], apart, few, transient=("normal", 0.02))


if __name__ == "__main__":
    main()
