"""The pooled slowest GPU against simulation, for every part of the model and every pair of parts.

    .venv/bin/python -m tests.soak.pooled_against_draws [scenarios of each pair] [draws]

Prints the distribution of z of the means and of the quantiles, and the worst scenarios.
"""

import sys
from itertools import combinations

import numpy as np

from service.model.slowest.pooled import pooled_slowest
from tests.model.brute_force import PARTS, Scenario, scenario_of, scores
from tests.model.fleets_for_tests import one_fleet

FURTHER: list[tuple[str, ...]] = [
    ("node", "episodes", "classes"),
    ("replica", "episodes", "classes"),
    ("node", "replica", "classes"),
    ("node", "replica", "episodes"),
    ("persistent", "transient", "node", "replica", "common", "spikes"),
    ("persistent", "transient", "node", "replica", "common", "spikes", "episodes", "classes"),
]


def pairs() -> list[tuple[str, ...]]:
    """Every part alone and every pair.

    Steps end without some GPUs only where nothing is shared: the rest is refused.
    """
    shared = {"node", "replica"}
    found = [(part,) for part in PARTS] + list(combinations(PARTS, 2))
    return [parts for parts in found if not ("backup" in parts and shared & set(parts))]


def is_expected_over_placements(scenario: Scenario) -> bool:
    """Whether the model averages the logarithm over placements.

    More than two classes fall on blocks, or two on blocks within blocks.
    """
    shared = {"node", "replica"} & set(scenario.given)
    kinds = len(scenario.classes) * (2 if "episodes" in scenario.given else 1)
    return kinds > (3 - len(shared) if shared else kinds)


def compared(parts: tuple[str, ...], seed: int, draws: int) -> tuple[Scenario, list[float], float]:
    """A random scenario, its four z, and the relative difference of the means."""
    rng = np.random.default_rng([seed, *(PARTS.index(part) for part in parts)])
    scenario = scenario_of(parts, rng)
    found = pooled_slowest(one_fleet(scenario.classes, **scenario.given))
    z, relative = scores(scenario, float(found.mean[0]), found.quantiles[0], draws, rng)
    return scenario, z.tolist(), relative


def main() -> None:
    """Prints a table."""
    repeats, draws = [*map(int, sys.argv[1:]), 10, 20_000][:2]
    rows = [
        (parts, *compared(parts, seed, draws))
        for parts in pairs() + FURTHER
        for seed in range(repeats)
    ]
    for approximate in (False, True):
        chosen = [row for row in rows if is_expected_over_placements(row[1]) == approximate]
        print("expected over placements" if approximate else "exact")
        z = np.array([row[2] for row in chosen])
        for name, column in zip(("mean", "p50", "p95", "p99"), z.T, strict=True):
            print(
                f"  {name}: {len(column)} scenarios, z mean {column.mean():.3f},"
                f" sd {column.std():.3f}, worst {np.abs(column).max():.2f}"
            )
        print(f"  largest relative difference of means {max(abs(row[3]) for row in chosen):.1e}")
        for parts, scenario, found, relative in sorted(
            chosen, key=lambda row: -max(map(abs, row[2]))
        )[:4]:
            print(" ", parts, np.round(found, 2), f"{relative:.1e}", scenario)


if __name__ == "__main__":
    main()
