"""The spread of the window's loss with overlap and local steps, against simulated clusters."""

from typing import Any

import numpy as np
import pytest

from service.model.axes import decode_axes
from service.model.columns import columns_of
from service.model.grid import build_grid
from service.model.kernel import evaluate
from service.model.results import METHODS
from service.model.scenario import decode_scenario
from tests.model.random_waits import Rng
from tests.model.steps_by_hand import Floats, barrier_step, compute_ms, lasting, per_step

STEP: dict[str, Any] = {
    "num_gpus": 16,
    "gpus_per_node": 4,
    "tensor_parallel_size": 1,
    "backward_fraction": 2 / 3,
    "compute_ms": 100.0,
    "load_ms": 10.0,
    "communication": {"kind": "fixed", "allreduce_ms": 58.0},
    "overlap": {
        "kind": "buckets",
        "num_buckets": 10,
        "load_prefetch": False,
        "contention_fraction": 0.0,
    },
    "synchronization": {"kind": "every_step"},
    "draws": 2048,
}
"""With backward 2/3 the buckets stop to hide the exchange at a factor of 0.87, in the middle."""
PERSISTENT = {"kind": "gamma", "cv": 0.1}
TRANSIENT = {"kind": "lognormal", "cv": 0.1}
COMMON = {"kind": "gamma", "cv": 0.15}
PREFETCH = {"kind": "buckets", "num_buckets": 4, "load_prefetch": True, "contention_fraction": 0.3}
NO_OVERLAP = {"kind": "none", "load_prefetch": False}
LOCAL = {"kind": "local_steps", "steps": 5}

LASTING: list[dict[str, Any]] = [
    {"variability": {"persistent": PERSISTENT}},
    {"variability": {"persistent": PERSISTENT}, "load_ms": 130.0, "overlap": PREFETCH},
    {"variability": {"persistent": PERSISTENT, "transient": TRANSIENT}},
    {"variability": {"node": PERSISTENT, "transient": TRANSIENT, "spikes": {
        "probability": 0.02, "slowdown": 1.6}}},
    {"variability": {"persistent": PERSISTENT, "transient": TRANSIENT, "common": COMMON}},
    {"variability": {"persistent": PERSISTENT, "common": COMMON}},
    {"variability": {"persistent": PERSISTENT, "common": COMMON, "transient": TRANSIENT},
     "num_spare_gpus": 3},
    {"variability": {"persistent": PERSISTENT, "transient": TRANSIENT}, "load_ms": 130.0,
     "overlap": PREFETCH, "num_evicted_gpus": 2},
    {"variability": {"persistent": PERSISTENT, "transient": TRANSIENT}, "overlap": NO_OVERLAP,
     "synchronization": LOCAL},
]  # fmt: skip


def steps_of_clusters(document: dict[str, Any], shape: tuple[int, int], rng: Rng) -> Floats:
    """(clusters, steps or rounds) ms a step."""
    clusters, steps = shape
    stays = lasting(document, (), clusters, rng)
    factor = stays[:, np.newaxis] * per_step(document, (clusters, steps, stays.shape[1]), rng)
    if document["synchronization"]["kind"] == "every_step":
        return barrier_step(document, factor.max(axis=2))
    interval = document["synchronization"]["steps"]
    rounds = factor.reshape(clusters, -1, interval, factor.shape[2]).mean(axis=2).max(axis=2)
    exchange = document["communication"]["allreduce_ms"] / interval
    found: Floats = document["load_ms"] + compute_ms(document) * rounds + exchange
    return found


@pytest.mark.parametrize("change", LASTING)
def test_clusters_that_differ(change: dict[str, Any]) -> None:
    document = {**STEP, **change}
    found = evaluate(columns_of(decode_scenario(document))).columns
    rng = np.random.default_rng(7)
    clusters, steps = 3000, 200
    parts = [steps_of_clusters(document, (250, steps), rng) for _ in range(clusters // 250)]
    drawn = np.concatenate(parts)
    # Of the scatter of the few steps by hand, none is left over a window.
    of_mean = drawn.var(axis=1, ddof=1).mean() / steps
    mean = drawn.mean()
    by_hand = mean + (drawn.mean(axis=1) - mean) * np.sqrt(1 - of_mean / drawn.mean(axis=1).var())
    ideal = found["ideal_step_ms"][0]
    lost = found["gpu_hours_available"][0] * (
        1 - ideal / by_hand * (16 / (16 + change.get("num_spare_gpus", 0)))
    )
    sd = lost.std()
    assert found["gpu_hours_lost_sd"][0] == pytest.approx(sd, rel=0.08)
    assert abs(found["gpu_hours_lost_cluster_mean"][0] - lost.mean()) < 0.1 * sd
    for name, share in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
        assert abs(found[f"gpu_hours_lost_{name}"][0] - np.quantile(lost, share)) < 0.12 * sd
    assert METHODS[found["spread_method"][0]] in {"quadrature", "monte_carlo"}
    error = drawn.mean(axis=1).std() / np.sqrt(clusters)
    assert abs(found["step_mean_ms"][0] - mean) < 4.5 * error


PER_STEP: list[dict[str, Any]] = [
    {"variability": {"transient": TRANSIENT}},
    {"variability": {"transient": TRANSIENT, "common": COMMON}},
    {"variability": {"common": COMMON}},
    {"variability": {"transient": TRANSIENT, "replica": {"kind": "gamma", "cv": 0.05}},
     "load_ms": 130.0, "overlap": PREFETCH},
    {"variability": {"transient": TRANSIENT}, "overlap": NO_OVERLAP, "synchronization": LOCAL},
    {"variability": {"transient": TRANSIENT, "spikes": {"probability": 0.02, "slowdown": 1.6}},
     "overlap": NO_OVERLAP, "synchronization": LOCAL},
]  # fmt: skip


@pytest.mark.parametrize("change", PER_STEP)
def test_clusters_that_are_alike_but_for_their_steps(change: dict[str, Any]) -> None:
    document = {**STEP, **change}
    found = evaluate(columns_of(decode_scenario(document))).columns
    drawn = steps_of_clusters(document, (1000, 100), np.random.default_rng(8))
    interval = document["synchronization"].get("steps", 1)
    mean, variance = drawn.mean(), drawn.var()
    num_steps = 30 * 86.4e6 / mean / interval
    lost_slope = found["gpu_hours_available"][0] * found["ideal_step_ms"][0] / mean**2
    sd = lost_slope * np.sqrt(variance / num_steps)
    assert found["gpu_hours_lost_sd"][0] == pytest.approx(sd, rel=0.03)
    spread = found["gpu_hours_lost_p90"][0] - found["gpu_hours_lost_p10"][0]
    assert spread == pytest.approx(2 * 1.2815516 * sd, rel=0.03)
    assert abs(found["step_mean_ms"][0] - mean) < 4 * drawn.std() / np.sqrt(drawn.size)
    middle = found["gpu_hours_lost_p50"][0]
    assert middle == pytest.approx(found["gpu_hours_lost"][0], rel=1e-4)


def test_autocorrelated_steps_with_overlap() -> None:
    """Blocks of steps long against the memory of a step."""
    variability = {"transient": {"kind": "normal", "cv": 0.1}, "autocorrelation": 0.7}
    document = {**STEP, "variability": variability}
    found = evaluate(columns_of(decode_scenario(document))).columns
    drawn = steps_of_clusters(document, (4000, 200), np.random.default_rng(9))
    mean = drawn.mean()
    lost_slope = found["gpu_hours_available"][0] * found["ideal_step_ms"][0] / mean**2
    variance_of_sum = drawn.mean(axis=1).var() * drawn.shape[1]
    assert variance_of_sum > 1.5 * drawn.var()
    sd = lost_slope * np.sqrt(variance_of_sum * mean / (30 * 86.4e6))
    assert found["gpu_hours_lost_sd"][0] == pytest.approx(sd, rel=0.06)


def test_rounds_of_a_grid_share_what_is_alike() -> None:
    """Empirical steps are averaged by table; points that differ in their work share it."""
    quantiles = [0.8 + 0.004 * step for step in range(101)]
    law = {"kind": "empirical", "quantiles": quantiles}
    base = decode_scenario(
        {
            **STEP,
            "overlap": NO_OVERLAP,
            "synchronization": LOCAL,
            "variability": {"transient": law},
            "total_steps": 100,
        }
    )
    axes = decode_axes(
        [
            {"path": "total_steps", "values": [100, 200]},
            {"path": "synchronization.steps", "values": [1, 4, 16]},
        ]
    )
    found = evaluate(build_grid(base, axes, max_points=6).columns(0, 6)).columns
    means = found["step_mean_ms"].reshape(2, 3)
    assert means[0].tolist() == means[1].tolist()
    rng = np.random.default_rng(10)
    for steps, mean in zip((1, 4, 16), means[0].tolist(), strict=True):
        uniforms = rng.random((20_000, 16, steps))
        factors = np.interp(uniforms, np.linspace(0, 1, 101), quantiles)
        slowest = factors.mean(axis=2).max(axis=1)
        by_hand = 10 + 100 * slowest + 58 / steps
        assert abs(mean - by_hand.mean()) < 4 * by_hand.std() / np.sqrt(len(by_hand))
    sd = found["gpu_hours_lost_sd"].reshape(2, 3)
    assert sd[0].tolist() == sd[1].tolist()
    assert (sd > 0).all()
