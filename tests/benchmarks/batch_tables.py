"""The grids that the batch benchmarks run, and their computed columns.

`TRAINARD_BENCH_POINTS` shrinks them while a benchmark is being written.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.jobs.chunks import CHUNK_POINTS
from service.model.axes import decode_axes
from service.model.grid import build_grid
from service.model.inputs import input_column, input_names
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario
from service.settings import Limits

Document = dict[str, Any]
Table = dict[str, NDArray[Any]]

POINTS = int(os.environ.get("TRAINARD_BENCH_POINTS", "1000000"))
SCENARIO: Document = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}
CV = "variability.transient.cv"
SPEED = "slow_groups.0.speed_fraction"


def _cvs(count: int) -> Document:
    return {"path": CV, "logspace": {"start": 0.001, "stop": 0.3, "num": count}}


def cv_by_speed(num_cvs: int, num_speeds: int) -> list[Document]:
    """Axes whose points all differ in what must be integrated."""
    speeds = {"start": 0.5, "stop": 0.999, "num": num_speeds}
    return [_cvs(num_cvs), {"path": SPEED, "logspace": speeds}]


def cv_by_size(num_cvs: int, num_sizes: int) -> list[Document]:
    """Axes with a long run of cluster sizes in each variability."""
    return [
        _cvs(num_cvs),
        {"path": "num_gpus", "range": {"start": 8, "stop": 8 * num_sizes, "step": 8}},
    ]


DIFFERENT_POINTS = cv_by_speed(1000, POINTS // 1000)
GRIDS: dict[str, list[Document]] = {
    f"1 000 cv by {POINTS // 1000:,} speeds at N = 1 024": DIFFERENT_POINTS,
    f"20 cv by {POINTS // 20:,} sizes": cv_by_size(20, POINTS // 20),
}
# More than one chunk, so that every compute process has run once.
WARM_UP: list[Document] = [_cvs(2 * CHUNK_POINTS + 1)]


def batch_of(axes: list[Document], name: str, scenario: Document = SCENARIO) -> Document:
    """A batch of one item over these axes, which is computed whatever is stored already."""
    item = {"custom_id": "bench", "scenario": scenario, "axes": axes}
    return {"name": name, "reuse": False, "items": [item]}


def computed(axes: list[Document]) -> list[Table]:
    """All stored columns of the grid, chunk by chunk, as the compute processes make them."""
    limit = Limits().points_per_batch
    grid = build_grid(decode_scenario(SCENARIO), decode_axes(axes), max_points=limit)
    names = input_names(grid.columns(0, 1), grid.axis_paths)
    tables = []
    for start in range(0, grid.num_points, CHUNK_POINTS):
        columns = grid.columns(start, min(start + CHUNK_POINTS, grid.num_points))
        results = evaluate(columns)
        tables.append(
            {
                "item": np.zeros(columns.num_points, dtype=np.int64),
                "failure": results.failure,
                **{name: input_column(columns, name) for name in names},
                **results.columns,
            }
        )
    return tables
