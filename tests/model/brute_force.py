"""Random scenarios, simulated GPU by GPU: no quadrature, no formula of the service.

Every draw is a step of a fresh cluster; a state of episodes is drawn by enumeration, because the
mean of the model is an average over time of 1 / (outside + mean of the state).
"""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.model.fleets_for_tests import SOURCES, Classes

Floats = NDArray[np.float64]
PARTS = (*SOURCES, "spikes", "episodes", "classes", "backup")
PROBABILITIES = np.array([0.5, 0.95, 0.99])


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`classes` as (GPUs, mean factor), `given` as `one_fleet` takes it."""

    classes: Classes
    given: dict[str, Any] = field(default_factory=dict)


def scenario_of(parts: tuple[str, ...], rng: np.random.Generator) -> Scenario:
    """A random scenario with exactly these parts varying."""
    node_size = int(rng.choice([2, 4, 8]))
    group_size = int(rng.choice([size for size in (1, 2, 4) if size <= node_size]))
    num_gpus = group_size * int(rng.integers(1, 33 // group_size))
    given: dict[str, Any] = {
        "gpus_per_node": node_size,
        "tensor_parallel_size": group_size,
        "outside_ratio": float(rng.uniform(0, 1)),
    }
    # Without any continuous factor quantiles are jumps: the exact tests have those.
    varying = [name for name in SOURCES if name in parts] or ["transient"]
    for name in varying:
        kind = str(rng.choice(["normal", "lognormal", "gamma"]))
        given[name] = (kind, float(10 ** rng.uniform(-2.5, -0.75)))
    if "spikes" in parts:
        given["spikes"] = (float(10 ** rng.uniform(-3, -1)), float(rng.uniform(1.05, 3)))
    if "episodes" in parts:
        num_gpus = min(num_gpus, 3 * group_size)
        given["episodes"] = (float(10 ** rng.uniform(-2, -0.4)), float(rng.uniform(1.05, 2)))
    num_slow = int(rng.integers(1, num_gpus + 1)) if "classes" in parts else 0
    slow = (num_slow, float(rng.uniform(1.02, 1.6)))
    if "backup" in parts:
        given["num_backup"] = int(rng.integers(0, max(num_gpus // 2, 1)))
    classes = [(num_gpus - num_slow, 1.0), slow] if num_slow else [(num_gpus, 1.0)]
    return Scenario(classes=[pair for pair in classes if pair[0] > 0], given=given)


def factors(kind: str, cv: float, size: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Draws of mean 1."""
    if kind == "normal":
        return 1 + cv * rng.standard_normal(size)
    if kind == "lognormal":
        sd = np.sqrt(np.log1p(cv**2))
        return rng.lognormal(-(sd**2) / 2, sd, size)
    return rng.gamma(1 / cv**2, cv**2, size)


def slowest(scenario: Scenario, means: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """(draws,) of the slowest factor of a step; means (GPUs,) of the classes, placed at random."""
    given, num_gpus = scenario.given, len(means)
    time = rng.permuted(np.tile(means, (draws, 1)), axis=1)
    shared_by = {
        "node": given["gpus_per_node"],
        "replica": given["tensor_parallel_size"],
        "common": num_gpus,
    }
    for name in SOURCES:
        if name in given:
            size = shared_by.get(name, 1)
            kind, cv = given[name]
            drawn = factors(kind, cv, (draws, -(-num_gpus // size)), rng)
            time *= np.repeat(drawn, size, axis=1)[:, :num_gpus]
    if "spikes" in given:
        probability, slowdown = given["spikes"]
        time *= np.where(rng.random(time.shape) < probability, slowdown, 1)
    left_behind = given.get("num_backup", 0)
    return np.partition(time, num_gpus - 1 - left_behind, axis=1)[:, num_gpus - 1 - left_behind]


def scores(
    scenario: Scenario, mean: float, quantiles: Floats, draws: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    """(4,) z: of the mean, and of the share of the draws below each quantile.

    Also the difference of the means, drawn less given, as a part of the latter.
    """
    severity = scenario.given.get("episodes", (0.0, 1.0))[1]
    outside = scenario.given["outside_ratio"]
    reciprocal, variance, below, below_variance = 0.0, 0.0, np.zeros(3), np.zeros(3)
    for weight, numbers in _states(scenario):
        means = np.concatenate(
            [
                np.repeat([of_class, of_class * severity], [int(count) - number, number])
                for (count, of_class), number in zip(scenario.classes, numbers, strict=True)
            ]
        )
        drawn = slowest(scenario, means, draws, rng)
        total = outside + drawn.mean()
        reciprocal += weight / total
        variance += (weight / total**2) ** 2 * drawn.var() / draws
        share = (drawn[:, np.newaxis] <= quantiles).mean(axis=0)
        below += weight * share
        below_variance += weight**2 * np.maximum(share * (1 - share), 1 / draws) / draws
    more = 1 / reciprocal - outside - mean
    z = more / (np.sqrt(variance) / reciprocal**2)
    return np.array([z, *(below - PROBABILITIES) / np.sqrt(below_variance)]), more / mean


def _states(scenario: Scenario) -> list[tuple[float, tuple[int, ...]]]:
    """Weight and numbers of GPUs in an episode, by class."""
    occupancy = scenario.given.get("episodes", (0.0, 1.0))[0]
    ranges = [range(int(count) + 1) for count, _ in scenario.classes]
    found = []
    for numbers in product(*ranges):
        chances = [
            stats.binom.pmf(number, int(count), occupancy)
            for number, (count, _) in zip(numbers, scenario.classes, strict=True)
        ]
        weight = float(np.prod(chances))
        if weight > 0:
            found.append((weight, numbers))
    return found
