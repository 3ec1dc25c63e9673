"""The kernel on one core: all points different against plain NumPy sampling, and long size axes."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from numpy.typing import NDArray

from service.model.columns import COUNT, SPEED, Columns, columns_of
from service.model.distributions import FAMILIES, law_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario
from service.model.slowest.barrier import Groups, slowest_of
from service.model.slowest.sizes import slowest_of_sizes
from tests.benchmarks.results_table import markdown_table
from tests.model.reference import expected_slowest

ROUNDS = 7
NUM_GPUS = 1024
CV = "variability.transient.cv"
NUM_POINTS = 10_000
SAMPLED_POINTS = 8
DRAWS = 1000
CHECKED_POINTS = 200
NUM_SIZES = 100_000
OUTSIDE_MS = 110.0
COMPUTE_MS = 300.0
RATIO_OF_SAMPLING = 4000
RATIO_OF_SIZES = 20


def rows() -> list[dict[str, str]]:
    """Ratios are medians over rounds in which both sides run one after the other."""
    return [_against_sampling(), _along_sizes()]


def _against_sampling() -> dict[str, str]:
    columns = _different_points()
    evaluate(columns)
    mine, theirs = [], []
    for _ in range(ROUNDS):
        mine.append(NUM_POINTS / _seconds(lambda: evaluate(columns)))
        theirs.append(SAMPLED_POINTS / _seconds(lambda: _sampled_steps(columns)))
    return {
        "measure": f"two normal groups, N = {NUM_GPUS}, all points different; "
        f"mean and three quantiles against {DRAWS} draws in plain NumPy",
        "Trainard": f"{median(mine):,.0f} points/s, worst error {_worst_error(columns):.0e}",
        "other": f"{median(theirs):,.0f} points/s, standard error {_standard_error(columns):.0e}",
        "ratio": f"{median(a / b for a, b in zip(mine, theirs, strict=True)):,.0f}",
        "target": f"at least {RATIO_OF_SAMPLING:,}",
    }


def _along_sizes() -> dict[str, str]:
    sizes = np.arange(8, 8 + NUM_SIZES, dtype=np.float64)
    slow = np.full(NUM_SIZES, 4.0)
    groups = Groups(
        law=law_of(FAMILIES.index("normal")),
        num_gpus=np.vstack([sizes, slow]),
        mean=np.vstack([np.ones(NUM_SIZES), np.full(NUM_SIZES, 1 / 0.8)]),
        shape=np.array([[0.05], [0.0]]) * np.ones(NUM_SIZES),
    )
    key = np.zeros(NUM_SIZES, dtype=np.int64)
    difference = np.abs(slowest_of_sizes(groups, key).mean / slowest_of(groups).mean - 1).max()
    panels, plain = [], []
    for _ in range(ROUNDS):
        panels.append(NUM_SIZES / _seconds(lambda: slowest_of_sizes(groups, key)))
        plain.append(NUM_SIZES / _seconds(lambda: slowest_of(groups)))
    return {
        "measure": f"{NUM_SIZES:,} sizes of one cluster by Chebyshev panels against quadrature",
        "Trainard": f"{median(panels):,.0f} points/s, differs by {difference:.0e}",
        "other": f"{median(plain):,.0f} points/s",
        "ratio": f"{median(a / b for a, b in zip(panels, plain, strict=True)):,.0f}",
        "target": f"at least {RATIO_OF_SIZES}",
    }


def _different_points() -> Columns:
    rng = np.random.default_rng(20_261_129)
    scenario = decode_scenario(
        {
            "num_gpus": NUM_GPUS,
            "load_ms": 30.0,
            "compute_ms": COMPUTE_MS,
            "communication": {"kind": "fixed", "allreduce_ms": OUTSIDE_MS - 30.0},
            "variability": {"transient": {"kind": "normal", "cv": 0.05}},
        }
    )
    return Columns(
        num_points=NUM_POINTS,
        values={
            **columns_of(scenario).values,
            COUNT: rng.integers(1, 65, (NUM_POINTS, 1)),
            SPEED: rng.uniform(0.6, 0.99, (NUM_POINTS, 1)),
            CV: rng.uniform(0.005, 0.3, NUM_POINTS),
        },
    )


def _sampled_steps(columns: Columns) -> NDArray[np.float64]:
    """(points, draws) steps of the first points, as one would write it without the kernel."""
    rng = np.random.default_rng(1)
    steps = np.empty((SAMPLED_POINTS, DRAWS))
    for point in range(SAMPLED_POINTS):
        factor = rng.standard_normal((DRAWS, NUM_GPUS))
        factor *= columns[CV][point]
        factor += 1
        factor[:, : columns[COUNT][point, 0]] /= columns[SPEED][point, 0]
        steps[point] = OUTSIDE_MS + COMPUTE_MS * factor.max(axis=1)
    return steps


def _standard_error(columns: Columns) -> float:
    """Relative, of the sampled means: the largest of the sampled points."""
    steps = _sampled_steps(columns)
    return float((steps.std(axis=1) / steps.mean(axis=1)).max() / DRAWS**0.5)


def _worst_error(columns: Columns) -> float:
    """Relative, of the mean step, against 3 200 nodes by SciPy's distributions."""
    step = evaluate(columns).columns["step_mean_ms"]
    errors = []
    for point in range(CHECKED_POINTS):
        slow = float(columns[COUNT][point, 0])
        fleet = [(NUM_GPUS - slow, 1.0), (slow, 1 / float(columns[SPEED][point, 0]))]
        wanted = expected_slowest("normal", float(columns[CV][point]), fleet)
        errors.append(abs(step[point] / (OUTSIDE_MS + COMPUTE_MS * wanted) - 1))
    return float(max(errors))


def _seconds(run: Callable[[], object]) -> float:
    # Processor time: the figure is for one core, whatever else the machine is doing.
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    print(markdown_table(rows()))
