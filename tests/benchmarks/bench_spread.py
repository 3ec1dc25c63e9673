"""The spread over clusters on one core: speed at both ends of N, accuracy, and brute force."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from service.model.clusters.spread import Spread, spread_of
from service.model.columns import columns_of, joined
from service.model.fields import Scenario
from service.model.fleet import Fleet
from service.model.kernel import evaluate
from service.model.laws.law import Floats
from service.model.laws.normal import Normal
from service.model.laws.source import Source
from service.model.scenario import decode_scenario
from tests.benchmarks.results_table import markdown_table

ROUNDS = 5
NUM_POINTS = 200
DRAWS = 256
SMALL, LARGE = 1_000, 10_000_000
SAMPLED_STEPS = 64
TRUTH_DRAWS = 16_384
NUM_SEEDS = 24
SOURCES = ("persistent", "transient")
POINTS_PER_SECOND = 1000
WHOLE_GPUS, WHOLE_POINTS, WHOLE_STEPS = 1024, 4, 1000
NORMAL = {"kind": "normal", "cv": 0.03}
EPISODES = {"rate_per_gpu_day": 0.01, "mean_hours": 0.4, "severity": 1.5}
OCCUPANCY = -np.expm1(-0.01 * 0.4 / 24)
SPIKES = {"probability": 1e-5, "slowdown": 2.0}
PER_STEP: dict[str, Any] = {
    "transient": NORMAL,
    "replica": NORMAL,
    "common": {"kind": "normal", "cv": 0.02},
    "spikes": SPIKES,
}
WHOLE: dict[str, dict[str, Any]] = {
    "several sources of each step (quadrature only)": PER_STEP,
    "all seven sources": {
        **PER_STEP,
        "persistent": NORMAL,
        "node": NORMAL,
        "episodes": EPISODES,
    },
}
RATIO_OF_SIZES = 1.5


def rows() -> list[dict[str, str]]:
    """Medians over rounds in which all sides run one after the other."""
    small, large = fleet_of(SMALL), fleet_of(LARGE)
    nodes = fleet_of(SMALL, (*SOURCES, "node"))
    times: dict[str, list[float]] = {"small": [], "large": [], "nodes": [], "brute": []}
    spread(small.part(slice(0, 2)))
    for _ in range(ROUNDS):
        times["small"].append(seconds(lambda: spread(small)) / NUM_POINTS)
        times["large"].append(seconds(lambda: spread(large)) / NUM_POINTS)
        times["nodes"].append(seconds(lambda: spread(nodes)) / NUM_POINTS)
        times["brute"].append(seconds(brute_force))
    found = {name: median(values) for name, values in times.items()}
    error = errors()
    return [
        {
            "measure": f"persistent and transient, N from {SMALL:,} on, all points different, "
            f"{DRAWS} clusters; against {DRAWS} clusters of {SAMPLED_STEPS} steps in NumPy",
            "Trainard": f"{1 / found['small']:,.0f} points/s; p10, p50, p90, mean off by {error} "
            "of the clusters' standard deviation (rms)",
            "other": f"{1 / found['brute']:.2f} points/s",
            "ratio": f"{found['brute'] / found['small']:,.0f}",
            "target": f"at least {POINTS_PER_SECOND:,} points/s",
        },
        {
            "measure": f"the same at N from {LARGE:,} on, against N from {SMALL:,} on",
            "Trainard": f"{1 / found['large']:,.0f} points/s",
            "other": f"{1 / found['small']:,.0f} points/s",
            "ratio": f"{found['large'] / found['small']:.2f} times as long",
            "target": f"at most {RATIO_OF_SIZES} times",
        },
        {
            "measure": f"node, persistent and transient, N from {SMALL:,} on",
            "Trainard": f"{1 / found['nodes']:,.0f} points/s",
            "other": "",
            "ratio": "",
            "target": "reported",
        },
        *(_whole(name, sources) for name, sources in WHOLE.items()),
    ]


def _whole(name: str, sources: dict[str, Any]) -> dict[str, str]:
    """All output columns of a scenario, causes and spread, against steps drawn in NumPy."""
    points = joined([columns_of(_scenario(sources, number)) for number in range(WHOLE_POINTS)])
    evaluate(points)
    mine = median(seconds(lambda: evaluate(points)) / WHOLE_POINTS for _ in range(ROUNDS))
    theirs = median(seconds(lambda: _steps(sources)) for _ in range(ROUNDS))
    steps = _steps(sources)
    error = steps.std() / steps.mean() / len(steps) ** 0.5
    return {
        "measure": f"{name}, N = {WHOLE_GPUS:,}, all columns; against the mean of {WHOLE_STEPS} "
        "steps of new clusters in NumPy",
        "Trainard": f"{1 / mine:,.0f} points/s",
        "other": f"{1 / theirs:,.1f} points/s, standard error of the step {error:.0e}",
        "ratio": f"{theirs / mine:,.1f}",
        "target": "reported",
    }


def _scenario(sources: dict[str, Any], number: int) -> Scenario:
    return decode_scenario(
        {
            "num_gpus": WHOLE_GPUS + 8 * number,
            "load_ms": 30,
            "compute_ms": 300,
            "communication": {"kind": "fixed", "allreduce_ms": 80},
            "variability": sources,
            "draws": DRAWS,
        }
    )


def _steps(sources: dict[str, Any]) -> Floats:
    """(steps,) slowest of WHOLE_GPUS, as one would write it."""
    rng = np.random.default_rng(2)
    shape = (WHOLE_STEPS, WHOLE_GPUS)
    slowest: Floats = np.ones(shape)
    for name, shared_by in (("persistent", 1), ("transient", 1), ("node", 8), ("replica", 1)):
        if name in sources:
            drawn = 1 + 0.03 * rng.standard_normal((WHOLE_STEPS, WHOLE_GPUS // shared_by))
            slowest *= np.repeat(drawn, shared_by, axis=1)
    if "spikes" in sources:
        slowest[rng.random(shape) < sources["spikes"]["probability"]] *= 2
    if "episodes" in sources:
        slowest[rng.random(shape) < OCCUPANCY] *= sources["episodes"]["severity"]
    step: Floats = slowest.max(axis=1)
    return step * (1 + 0.02 * rng.standard_normal(WHOLE_STEPS)) if "common" in sources else step


def fleet_of(num_gpus: int, sources: tuple[str, ...] = SOURCES) -> Fleet:
    """Every point of another size and spread."""
    cv = np.linspace(0.03, 0.06, NUM_POINTS)
    source = Source(law=Normal, shape=np.vstack([cv, np.zeros(NUM_POINTS)]))
    zeros = np.zeros(NUM_POINTS, dtype=np.int64)
    sizes: Floats = num_gpus + 8.0 * np.arange(NUM_POINTS, dtype=np.float64)
    given: dict[str, Any] = dict.fromkeys(sources, source)
    return Fleet(
        num_gpus=sizes[np.newaxis],
        mean=np.ones((1, NUM_POINTS)),
        gpus_per_node=zeros + 8,
        tensor_parallel_size=zeros + 1,
        outside_ratio=np.full(NUM_POINTS, 110 / 300),
        num_removed=zeros,
        num_backup=zeros,
        autocorrelation=np.zeros(NUM_POINTS),
        **given,
    )


def spread(fleet: Fleet, seed: int = 0, draws: int = DRAWS) -> Spread:
    """Of a month of steps."""
    number = fleet.num_points
    return spread_of(
        fleet,
        seed=np.full(number, seed),
        draws=np.full(number, draws),
        num_steps=np.full(number, 5e6),
        window_hours=np.full(number, 720.0),
    )


def brute_force() -> Floats:
    """One point as one would write it: clusters, steps, the mean of the slowest."""
    rng = np.random.default_rng(1)
    found = np.empty(DRAWS)
    for cluster in range(DRAWS):
        persistent = 1 + 0.05 * rng.standard_normal(SMALL)
        steps = 1 + 0.05 * rng.standard_normal((SAMPLED_STEPS, SMALL))
        found[cluster] = (persistent * steps).max(axis=1).mean()
    return np.quantile(found, [0.1, 0.5, 0.9])


def errors() -> str:
    """Root mean square over seeds, against many more draws of the same model."""
    point = fleet_of(SMALL).part(slice(100, 101))
    truth = spread(point, 1000, TRUTH_DRAWS)
    wanted = np.append(truth.quantiles[0], truth.mean[0])
    sd = truth.reciprocal_sd[0] * (point.outside_ratio[0] + truth.mean[0]) ** 2
    found = [spread(point, seed) for seed in range(NUM_SEEDS)]
    values = np.array([np.append(one.quantiles[0], one.mean[0]) for one in found])
    rms = np.sqrt(((values - wanted) ** 2).mean(axis=0)) / sd
    return ", ".join(f"{value:.3f}" for value in rms.tolist())


def seconds(run: Callable[[], object]) -> float:
    """Processor time: the figure is for one core, whatever else the machine is doing."""
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    print(markdown_table(rows()))
