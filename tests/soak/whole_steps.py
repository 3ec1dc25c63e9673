"""Random scenarios with overlap and synchronization, against steps simulated event by event.

    python -m tests.soak.whole_steps [scenarios of each way] [seed]

prints each scenario's difference and z, and what is wrong with them all: mean and deviation of z
should be 0 and 1. Some 2 s a scenario.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario
from tests.model.random_waits import WAYS, random_scenario
from tests.model.steps_by_hand import Document, simulated

STEPS_OF_A_BARRIER = 4
# Ranks that wait for each other later must vary enough for a short memory.
LEAST_CV = 0.06
MOST_STALENESS = 2
EQUAL = 1e-9
PROBABILITIES = {"step_p50_ms": 0.5, "step_p95_ms": 0.95, "step_p99_ms": 0.99}


class Effort(NamedTuple):
    """Clusters of the ways with a barrier and of the others, and steps of the latter."""

    of_barrier: int
    clusters: int
    steps: int


FAST = Effort(4000, 60, 1500)
LONG = Effort(20_000, 200, 6000)


class Compared(NamedTuple):
    """Of one scenario: z of the mean step and of its quantiles, and the relative difference."""

    z: float
    quantile_z: list[float]
    difference: float


def sound_scenario(rng: np.random.Generator, way: str) -> Document:
    """One that breaks no rule and can be simulated by hand."""
    while True:
        document = random_scenario(rng, way)
        sources = document["variability"]
        if "autocorrelation" in sources and sources["transient"]["kind"] == "gamma":
            continue
        if way in {"stale", "delayed", "fragments"}:
            for name in {"transient", "replica"} & set(sources):
                sources[name]["cv"] = max(sources[name]["cv"], LEAST_CV)
            if document["synchronization"].get("staleness", 0) > MOST_STALENESS:
                continue
        try:
            decode_scenario(document)
        except InvalidScenario:
            continue
        return document


def results(document: Document) -> dict[str, float]:
    """All columns of the one point."""
    found = evaluate(columns_of(decode_scenario(document)), with_spread=False)
    return {name: float(values[0]) for name, values in found.columns.items()}


def compared(document: Document, effort: Effort, rng: np.random.Generator) -> Compared:
    """The service against simulation."""
    found = results(document)
    waiting = document["synchronization"]
    if waiting["kind"] in {"every_step", "backup_workers"}:
        by_hand = simulated(document, effort.of_barrier, STEPS_OF_A_BARRIER, rng)
    else:
        period = waiting.get("steps", 1)
        by_hand = simulated(document, effort.clusters, max(effort.steps // period, 8) * period, rng)
    share = found["gpu_hours_lost_se"] / found["gpu_hours_available"]
    own_error = share / found["efficiency_fraction"] * found["step_mean_ms"]
    difference = found["step_mean_ms"] - by_hand.mean
    error = np.hypot(by_hand.error, own_error)
    z = difference / max(error, EQUAL * by_hand.mean)
    quantile_z = [
        _quantile_z(by_hand.steps, found[name], probability)
        for name, probability in PROBABILITIES.items()
        if len(by_hand.steps) and np.ptp(by_hand.steps) > 0 and np.isfinite(found[name])
    ]
    return Compared(float(z), quantile_z, float(difference / by_hand.mean))


def _quantile_z(steps: Any, quantile: float, probability: float) -> float:
    """0 where the quantile sits on an atom that the probability falls into."""
    below, up_to = ((steps < quantile * (1 + side * EQUAL)).mean() for side in (-1, 1))
    error = np.sqrt(probability * (1 - probability) / len(steps))
    if below <= probability <= up_to:
        return 0.0
    return float(min((below - probability) / error, (up_to - probability) / error, key=abs))


def main() -> None:
    """All ways, so many scenarios each."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    z: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(number):
        for way in WAYS:
            document = sound_scenario(rng, way)
            one = compared(document, LONG, rng)
            z[way].append(one.z)
            worst = max([0.0, *one.quantile_z], key=abs)
            print(f"{way:14s} {one.difference:10.1e} z {one.z:6.2f} quantiles {worst:6.2f}")
            if abs(one.z) > 4 or abs(worst) > 4:
                print("   ", document, flush=True)
    for way, of_way in z.items():
        print(f"{way:14s} mean z {np.mean(of_way):6.2f} sd {np.std(of_way):5.2f}")


if __name__ == "__main__":
    main()
