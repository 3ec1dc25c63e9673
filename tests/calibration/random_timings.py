"""Timings of every kind: small, uneven, with holes, ticks, stages, passes and memory loss."""

import numpy as np

from service.calibration.timings import Passes, Timings


def timings_of_seed(seed: int) -> Timings:
    """One of them; most are refused or remarked upon."""
    rng = np.random.default_rng(seed)
    num_steps = int(rng.choice([8, 10, 11, 12, 15, 20, 31, 60]))
    num_ranks = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 9, 16, 33, 64]))
    cells = _cells(rng, num_steps, num_ranks)
    stages = None
    if rng.random() < 0.4:
        stages = np.sort(np.arange(num_ranks) % int(rng.choice([1, 2, 4])))
        cells *= 1 + float(rng.choice([0, 0.3])) * stages
    passes = None
    if rng.random() < 0.5:
        passes = Passes(forward_ms=cells / 12, backward_ms=cells / 6, num_microbatches=4)
    steps = np.arange(num_steps)
    if rng.random() < 0.4:
        steps = np.sort(rng.choice(5 * num_steps, num_steps, replace=False))
    step_ms = communication_ms = load_ms = None
    if rng.random() < 0.5:
        filled = np.nan_to_num(cells, nan=0)
        step_ms = np.tile(filled.max(axis=1, keepdims=True) * 1.2, (1, num_ranks))
        communication_ms = step_ms - filled
    if rng.random() < 0.5:
        load_ms = 5 + rng.random(cells.shape)
    ranks = np.arange(num_ranks)
    return Timings(
        format="table",
        files=(),
        steps=steps,
        ranks=ranks,
        compute_ms=cells,
        load_ms=load_ms,
        communication_ms=communication_ms,
        step_ms=step_ms,
        nodes=ranks // int(rng.choice([1, 2, 4, 8])) if rng.random() < 0.4 else None,
        replicas=ranks % int(rng.choice([1, 2, 4])) if rng.random() < 0.3 else None,
        stages=stages,
        passes=passes,
        num_gpus_per_rank=int(rng.choice([1, 1, 1, 2, 4, 8])),
        world_size=num_ranks + 3 if rng.random() < 0.2 else None,
    )


def _cells(
    rng: np.random.Generator, num_steps: int, num_ranks: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    spreads = rng.choice([0, 1e-6, 1e-3, 0.01, 0.05, 0.2, 0.5], 3)
    cells = np.full((num_steps, num_ranks), 100.0)
    for spread, shape in zip(
        spreads, [(1, num_ranks), (num_steps, 1), (num_steps, num_ranks)], strict=True
    ):
        cells = cells * np.exp(spread * rng.standard_normal(shape))
    if rng.random() < 0.3:
        cells[:, : max(num_ranks // int(rng.integers(2, 8)), 1)] *= rng.choice([1.05, 1.2, 3])
    if rng.random() < 0.2:
        cells[num_steps // 3 : 2 * num_steps // 3, 0] *= 2
    if rng.random() < 0.2:
        cells[rng.random(cells.shape) < 0.01] *= 3
    if rng.random() < 0.3:
        cells[rng.random(cells.shape) < rng.choice([0.05, 0.3, 0.7])] = np.nan
    if rng.random() < 0.1:
        cells = np.maximum(np.round(cells), 1)
    return cells
