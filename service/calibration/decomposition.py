"""Cells split into a mean, what stays with a rank, what all share in a step, and the rest.

Least squares of rank and step effects over the cells that are there; missing cells take no part
and nothing is put in their place. With every cell present these are the plain means. Sums of
squares by fitting constants (Henderson, Biometrics 9, 1953, method 3), whose expectations hold for
any pattern of missing cells that does not depend on the values.
"""

import numpy as np
from msgspec import Struct

from service.calibration.refusals import refused
from service.calibration.timings import BoolArray, FloatArray

CLOSE_ENOUGH = 1e-10
MAX_ROUNDS = 1_000


class TwoWay(Struct, frozen=True, kw_only=True):
    """Of a table (steps, ranks).

    mean            of all cells, when every rank and step counts the same
    of_rank         (ranks,) effects, of mean 0
    of_step         (steps,) effects, of mean 0
    rest            (steps, ranks), NaN where there is no cell
    rest_square     mean square of the rest: its variance
    rank_square     E = variance of ranks + rank_noise * variance of the rest
    step_square     E = variance of steps + step_noise * variance of the rest
    """

    mean: float
    of_rank: FloatArray
    of_step: FloatArray
    rest: FloatArray
    num_cells: int
    rest_dof: int
    rest_square: float
    rank_square: float
    rank_noise: float
    step_square: float
    step_noise: float


def two_way(cells: FloatArray, *, num_kinds: int = 1) -> TwoWay:
    """Decompose (steps, ranks); `num_kinds` means of ranks were taken out before (stages)."""
    present = np.isfinite(cells)
    num_steps, num_ranks = cells.shape
    num_cells = int(present.sum())
    if num_cells == cells.size:
        rank_means, step_means = cells.mean(axis=0), cells.mean(axis=1)
        mean = float(step_means.mean())
        of_rank, of_step = rank_means - mean, step_means - mean
        rest = cells - step_means[:, np.newaxis]
        rest -= of_rank
        of_ranks = num_steps * float(of_rank @ of_rank)
        of_steps = num_ranks * float(of_step @ of_step)
        rest_sum = float(np.vdot(rest, rest))
    else:
        mean, of_rank, of_step = _effects(cells, present)
        rest = cells - (mean + of_rank) - of_step[:, np.newaxis]
        rest_sum = float(np.nansum(rest * rest))
        of_ranks = max(_about_means(cells, present, axis=1) - rest_sum, 0.0)
        of_steps = max(_about_means(cells, present, axis=0) - rest_sum, 0.0)
    # Of every rank and step one constant is fitted; stages that were scaled take one each.
    rest_dof = num_cells - num_steps - num_ranks + 1
    rank_dof = num_ranks - num_kinds
    rank_weight = (num_cells - num_steps) / (num_ranks - 1) if num_ranks > 1 else 0.0
    step_weight = (num_cells - num_ranks) / (num_steps - 1)
    return TwoWay(
        mean=mean,
        of_rank=of_rank,
        of_step=of_step,
        rest=rest,
        num_cells=num_cells,
        rest_dof=rest_dof,
        rest_square=rest_sum / rest_dof if rest_dof > 0 else 0.0,
        rank_square=of_ranks / (rank_weight * rank_dof) if rank_dof > 0 else 0.0,
        rank_noise=1 / rank_weight if rank_weight > 0 else 0.0,
        step_square=of_steps / (step_weight * (num_steps - 1)),
        step_noise=1 / step_weight,
    )


def _effects(cells: FloatArray, present: BoolArray) -> tuple[float, FloatArray, FloatArray]:
    """Mean, rank and step effects by alternating means, which converge to least squares.

    Raises TimingsRefusedError where some ranks share no step, even by way of others.
    """
    _check_connected(present)
    filled = np.where(present, cells, 0.0)
    weights = present.astype(np.float64)
    of_ranks, of_steps = weights.sum(axis=0), weights.sum(axis=1)
    rank_sums, step_sums = filled.sum(axis=0), filled.sum(axis=1)
    rank = np.zeros(cells.shape[1])
    step = np.zeros(cells.shape[0])
    scale = float(np.abs(rank_sums / of_ranks).max())
    for _ in range(MAX_ROUNDS):
        step = (step_sums - weights @ rank) / of_steps
        moved = (rank_sums - step @ weights) / of_ranks
        change = float(np.abs(moved - rank).max())
        rank = moved
        if change <= CLOSE_ENOUGH * scale:
            break
    mean = float(rank.mean() + step.mean())
    return mean, rank - rank.mean(), step - step.mean()


def _check_connected(present: BoolArray) -> None:
    if present.all(axis=1).any() or present.all(axis=0).any():
        return
    sizes = _parts(present)
    if len(sizes) > 1:
        raise refused(
            "missing_ranks",
            f"{present.shape[1]} ranks fall into {len(sizes)} groups without a common step (the "
            f"largest of {max(sizes)} ranks): what differs between ranks cannot be told from what "
            "differs between steps; record all ranks in the same steps",
        )


def _parts(present: BoolArray) -> list[int]:
    """Numbers of ranks that share steps, by way of others too; each rank and step is met once."""
    steps_left = np.ones(present.shape[0], np.bool_)
    ranks_left = np.ones(present.shape[1], np.bool_)
    sizes = []
    while ranks_left.any():
        reached = np.zeros_like(ranks_left)
        reached[np.argmax(ranks_left)] = True
        size = 0
        while reached.any():
            ranks_left &= ~reached
            size += int(reached.sum())
            steps = steps_left & present[:, reached].any(axis=1)
            steps_left &= ~steps
            reached = ranks_left & present[steps].any(axis=0)
        sizes.append(size)
    return sizes


def _about_means(cells: FloatArray, present: BoolArray, *, axis: int) -> float:
    """Sum of squares about the means along an axis."""
    counts = present.sum(axis=axis, keepdims=True)
    means = np.nansum(cells, axis=axis, keepdims=True) / counts  # no empty row: `fitted`
    return float(np.nansum((cells - means) ** 2))
