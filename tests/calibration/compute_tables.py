"""The two public traces, and tables made by hand."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.calibration.observed import Observed
from service.calibration.timings import IntArray, Passes, Timings

DATA = Path(__file__).parent / "data"


def timings_of(
    compute_ms: NDArray[np.float64],
    *,
    steps: IntArray | None = None,
    stages: IntArray | None = None,
    nodes: IntArray | None = None,
    replicas: IntArray | None = None,
    **more: object,
) -> Timings:
    """Timings of a matrix (steps, ranks)."""
    num_steps, num_ranks = compute_ms.shape
    fields: dict[str, object] = {
        "format": "table",
        "files": (),
        "steps": np.arange(num_steps) if steps is None else steps,
        "ranks": np.arange(num_ranks),
        "compute_ms": compute_ms,
        "stages": stages,
        "nodes": nodes,
        "replicas": replicas,
        **more,
    }
    return Timings(**fields)  # type: ignore[arg-type]


def observed_of_matrix(compute_ms: NDArray[np.float64], **more: IntArray) -> Observed:
    """Likewise what a fit takes."""
    timings = timings_of(compute_ms, **more)
    return Observed(
        compute_ms=compute_ms,
        steps=timings.steps,
        ranks=timings.ranks,
        nodes=timings.nodes,
        replicas=timings.replicas,
        stages=timings.stages,
    )


def trace(name: str, *, with_stages: bool, gpus_per_rank: int = 1) -> Timings:
    """`st` (8 ranks, 32 steps) or `ar` (16 ranks, 44 steps)."""
    rows = np.loadtxt(DATA / f"{name}_compute.csv", delimiter=",", skiprows=1)
    steps, row = np.unique(rows[:, 0].astype(np.int64), return_inverse=True)
    ranks, column = np.unique(rows[:, 1].astype(np.int64), return_inverse=True)
    cells = np.full((len(steps), len(ranks)), np.nan)
    cells[row, column] = rows[:, 4]
    labels = np.zeros((2, len(ranks)), dtype=np.int64)
    labels[0, column], labels[1, column] = rows[:, 2], rows[:, 3]
    return Timings(
        format="table",
        files=(),
        steps=steps,
        ranks=ranks,
        compute_ms=cells,
        replicas=labels[0],
        stages=labels[1] if with_stages else None,
        num_gpus_per_rank=gpus_per_rank,
    )


def passes_of(compute_ms: NDArray[np.float64], num_microbatches: int) -> Passes:
    """A third of each cell is forward, the rest backward."""
    return Passes(
        forward_ms=compute_ms / 3 / num_microbatches,
        backward_ms=compute_ms * 2 / 3 / num_microbatches,
        num_microbatches=num_microbatches,
    )


def factors_of(
    shape: tuple[int, int], *, rank: float, step: float, rest: float, seed: int = 0
) -> NDArray[np.float64]:
    """Normal factors times 100 ms, (steps, ranks)."""
    rng = np.random.default_rng(seed)
    return (
        100
        * (1 + rank * rng.standard_normal(shape[1]))
        * (1 + step * rng.standard_normal((shape[0], 1)))
        * (1 + rest * rng.standard_normal(shape))
    )
