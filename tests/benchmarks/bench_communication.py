"""Overlap and synchronization on one core: grids against loops that take one point at a time."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from service.model.columns import Columns
from service.model.grid import Grid
from service.model.kernel import evaluate
from service.model.results import COLUMN_NAMES
from service.model.step_lines import step_lines_of
from tests.benchmarks.results_table import markdown_table
from tests.model.grids_for_tests import grid_of

ROUNDS = 5
NUM_BUCKETS, FORWARD_MS, BACKWARD_MS = 20, 100.0, 200.0
NUM_LAYERS = 80
NUM_GPUS = 64
DRAWS = 1000
LOOP_POINTS, SAMPLED_POINTS, STALE_LOOP_POINTS = 200, 8, 1
STALE_STEPS = 64 * DRAWS
JITTER = {"transient": {"kind": "lognormal", "cv": 0.1}}
RING: dict[str, Any] = {
    "kind": "ring",
    "message_bytes": 2e9,
    "link": {"latency_us": 5, "bandwidth_gigabytes_per_s": 40},
}
BASE: dict[str, Any] = {
    "num_gpus": NUM_GPUS,
    "compute_ms": FORWARD_MS + BACKWARD_MS,
    "communication": RING,
    "overlap": {"kind": "buckets", "num_buckets": NUM_BUCKETS},
}
BANDWIDTH = "communication.link.bandwidth_gigabytes_per_s"


def rows() -> list[dict[str, str]]:
    """Medians over rounds in which both sides run one after the other."""
    return [_closed_forms(), _whole(), _quadrature(), _local_steps(), _staleness()]


def _closed_forms() -> dict[str, str]:
    sharded = {**BASE, "overlap": {"kind": "fsdp", "num_layers": NUM_LAYERS}}
    grid = _grid(sharded, 100)

    def step() -> object:
        columns = _columns(grid)
        return step_lines_of(columns).step.value(np.ones(columns.num_points))

    mine, loop = _paired(step, grid.num_points, _layers_point_by_point, LOOP_POINTS)
    return _row(
        f"sharded step of {NUM_LAYERS} layers, no variability, all bandwidths and sizes different, "
        "from the grid to the step; against the two queues in Python",
        mine,
        loop,
    )


def _whole() -> dict[str, str]:
    columns = _columns(_grid(BASE, 100))
    mine, loop = _paired(
        lambda: evaluate(columns), columns.num_points, _queue_point_by_point, LOOP_POINTS
    )
    return _row(
        f"ring all-reduce in {NUM_BUCKETS} buckets, no variability, all {len(COLUMN_NAMES)} output "
        "columns; against the queue of buckets in Python, which gives one",
        mine,
        loop,
    )


def _quadrature() -> dict[str, str]:
    columns = _columns(_grid({**BASE, "variability": JITTER}, 40))
    mine, loop = _paired(
        lambda: evaluate(columns, with_spread=False),
        columns.num_points,
        _sampled_point_by_point,
        SAMPLED_POINTS,
    )
    return _row(
        f"the same with lognormal steps of cv 0.1; against {DRAWS} draws of {NUM_GPUS} ranks in "
        "NumPy, point by point",
        mine,
        loop,
    )


def _local_steps() -> dict[str, str]:
    local = {"kind": "local_steps", "steps": 10}
    whole = {**BASE, "overlap": {"kind": "none"}, "variability": JITTER, "synchronization": local}
    columns = _columns(_grid(whole, 40))
    evaluate(columns, with_spread=False)
    mine, loop = _paired(
        lambda: evaluate(columns, with_spread=False),
        columns.num_points,
        _rounds_point_by_point,
        SAMPLED_POINTS,
    )
    return _row(
        f"10 local steps, lognormal of cv 0.1, by quadrature; against {DRAWS} rounds of "
        f"{NUM_GPUS} ranks in NumPy, point by point",
        mine,
        loop,
    )


def _staleness() -> dict[str, str]:
    stale = {"kind": "bounded_staleness", "staleness": 1}
    whole = {**BASE, "overlap": {"kind": "none"}, "variability": JITTER, "synchronization": stale}
    columns = _columns(
        grid_of(
            whole,
            [
                {"path": "synchronization.staleness", "values": [1, 2, 3, 4]},
                {"path": "variability.transient.cv", "values": [0.05, 0.1, 0.2, 0.3]},
            ],
        )
    )
    mine, loop = _paired(
        lambda: evaluate(columns, with_spread=False),
        columns.num_points,
        _stale_point_by_point,
        STALE_LOOP_POINTS,
    )
    found = evaluate(columns, with_spread=False).columns
    error = float((found["gpu_hours_lost_se"] / found["gpu_hours_available"]).max())
    return _row(
        f"staleness 1 to 4 of {NUM_GPUS} ranks, simulated with {DRAWS} draws (standard error of "
        f"the loss at most {error:.0e} of what is available, causes and all), against one "
        f"replication of {STALE_STEPS:,} steps in a Python loop over steps",
        mine,
        loop,
    )


def _grid(scenario: dict[str, Any], num_bandwidths: int) -> Grid:
    axes = [
        {"path": BANDWIDTH, "logspace": {"start": 1, "stop": 100, "num": num_bandwidths}},
        {"path": "num_gpus", "range": {"start": 8, "stop": 800, "step": 8}},
    ]
    return grid_of(scenario, axes)


def _columns(grid: Grid) -> Columns:
    return grid.columns(0, grid.num_points)


def _row(measure: str, mine: list[float], loop: list[float]) -> dict[str, str]:
    return {
        "measure": measure,
        "Trainard": f"{median(mine):,.0f} points/s",
        "other": f"{median(loop):,.2f} points/s",
        "ratio": f"{median(a / b for a, b in zip(mine, loop, strict=True)):,.0f}",
        "target": "none was set",
    }


def _paired(
    mine: Callable[[], object], num_points: int, loop: Callable[[int], object], loop_points: int
) -> tuple[list[float], list[float]]:
    """Points per second of both sides, round by round."""
    of_mine, of_loop = [], []
    for _ in range(ROUNDS):
        of_mine.append(num_points / _seconds(mine))
        of_loop.append(loop_points / _seconds(lambda: loop(loop_points)))
    return of_mine, of_loop


def _queue_point_by_point(num_points: int) -> list[float]:
    """What one would write: the collective's formula, then bucket after bucket."""
    steps = []
    for point in range(num_points):
        ranks, bandwidth = 8 + point, (1 + point) * 1e6
        cost = 2 * (ranks - 1) * 5e-3 + 2 * (ranks - 1) / ranks * 2e9 / NUM_BUCKETS / bandwidth
        end = 0.0
        for bucket in range(1, NUM_BUCKETS + 1):
            end = max(FORWARD_MS + BACKWARD_MS * bucket / NUM_BUCKETS, end) + cost
        steps.append(end)
    return steps


def _layers_point_by_point(num_points: int) -> list[float]:
    steps = []
    forward, backward = FORWARD_MS / NUM_LAYERS, BACKWARD_MS / NUM_LAYERS
    for point in range(num_points):
        ranks, bandwidth = 8 + point, (1 + point) * 1e6
        half = (ranks - 1) * 5e-3 + (ranks - 1) / ranks * 2e9 / NUM_LAYERS / bandwidth
        gathered = computed = before = 0.0
        for _ in range(NUM_LAYERS):
            gathered = max(gathered, before) + half
            before, computed = computed, max(computed, gathered) + forward
        channel = ready = computed
        for layer in range(NUM_LAYERS, 0, -1):
            begun = max(computed, ready)
            if layer > 1:
                channel = ready = max(channel, begun) + half
            computed = begun + backward
            channel = max(channel, computed) + half
        steps.append(channel)
    return steps


def _sampled_point_by_point(num_points: int) -> list[float]:
    rng = np.random.default_rng(1)
    means = []
    for point in range(num_points):
        slowest = rng.lognormal(0, 0.1, (DRAWS, NUM_GPUS)).max(axis=1)
        cost, end = 5.0 + point, np.zeros(DRAWS)
        for bucket in range(1, NUM_BUCKETS + 1):
            ready = slowest * (FORWARD_MS + BACKWARD_MS * bucket / NUM_BUCKETS)
            end = np.maximum(ready, end) + cost
        means.append(float(end.mean()))
    return means


def _rounds_point_by_point(num_points: int) -> list[float]:
    rng = np.random.default_rng(1)
    return [
        float(rng.lognormal(0, 0.1, (DRAWS, 10, NUM_GPUS)).sum(axis=1).max(axis=1).mean())
        for _ in range(num_points)
    ]


def _stale_point_by_point(num_points: int) -> list[float]:
    rng = np.random.default_rng(1)
    rates = []
    for point in range(num_points):
        ahead = 1 + point
        ends, slowest = np.zeros(NUM_GPUS), [0.0] * (STALE_STEPS + ahead + 1)
        for step in range(STALE_STEPS):
            gate = slowest[step]
            ends = np.maximum(ends, gate) + rng.lognormal(0, 0.1, NUM_GPUS)
            slowest[step + ahead + 1] = float(ends.max())
        rates.append(float(ends.max()) / STALE_STEPS)
    return rates


def _seconds(run: Callable[[], object]) -> float:
    # Processor time: the figure is for one core, whatever else the machine is doing.
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    print(markdown_table(rows()))
