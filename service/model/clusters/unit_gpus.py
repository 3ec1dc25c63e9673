"""The GPUs of the drawn units, one by one.

A unit's slowest GPU is at its slowness y. Its shared factor is drawn given y, and the other GPUs
are independent draws below y.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.clusters.cluster_draws import INSIDE, Clusters, inside_uniforms
from service.model.clusters.cluster_ranks import Drawn
from service.model.clusters.unit_members import Composition
from service.model.clusters.unit_slowness import score_quantiles, slowest_kinds
from service.model.laws.law import Floats
from service.model.slowest.scores import log_at, score_at

_UNITS, _LEVELS = 24, 49
_FARTHEST_LEVEL = 4.5
# Uniform numbers of a unit besides those of its GPUs: shared factor, kind of the slowest.
_OF_UNIT = 2
_SMALLEST = 1e-300


def drawn_gpus(
    composition: Composition, drawn: Drawn, log_y: Floats, clusters: Clusters, group: int
) -> tuple[NDArray[np.intp], Floats]:
    """Cluster and log slowness of each GPU of the units at y (entries,)."""
    kinds = composition.kinds
    counts = [round(kind.number) for kind in kinds]
    if composition.own is None:
        means = np.repeat(np.log([kind.mean for kind in kinds]), counts)
        alone = log_y[:, np.newaxis] + means - means.max()
        return np.repeat(drawn.cluster, len(means)), alone.ravel()
    width = _OF_UNIT + sum(counts)
    rows = (int(drawn.row.max(initial=-1)) + 1) * width
    numbers = _uniforms(clusters, group, rows).reshape(-1, width, clusters.stop - clusters.start)
    uniform = numbers[drawn.row, :, drawn.cluster].T
    score = _shared_scores(composition, log_y, uniform[0])
    kind_of_gpu = np.repeat(np.arange(len(kinds)), counts)
    log_mean = np.log([kind.mean for kind in kinds])[kind_of_gpu][:, np.newaxis]
    log_shared = composition.log_node(score)
    highest = score_at(composition.own, (log_y - log_mean - log_shared)[..., np.newaxis])[..., 0]
    below = special.log_ndtr(highest) + np.log(uniform[_OF_UNIT:])
    own = special.ndtri_exp(below)
    log_slowness = log_shared + log_mean + log_at(composition.own, own[..., np.newaxis])[..., 0]
    first = _slowest_gpus(composition, counts, score, log_y, uniform[1])
    log_slowness[first, np.arange(len(log_y))] = log_y
    return np.tile(drawn.cluster, len(log_slowness)), log_slowness.ravel()


def _shared_scores(composition: Composition, log_y: Floats, uniform: Floats) -> Floats:
    """(entries,) by a table of quantiles over units and levels."""
    low, high = float(log_y.min()), float(log_y.max())
    units = np.linspace(low, max(high, low + 1e-9), _UNITS)
    levels = np.linspace(-_FARTHEST_LEVEL, _FARTHEST_LEVEL, _LEVELS)
    table = score_quantiles(composition, units, levels)
    unit, unit_share = _between(log_y, units)
    level, level_share = _between(special.ndtri(uniform), levels)
    lower = table[unit, level] * (1 - level_share) + table[unit, level + 1] * level_share
    upper = table[unit + 1, level] * (1 - level_share) + table[unit + 1, level + 1] * level_share
    scores: Floats = lower * (1 - unit_share) + upper * unit_share
    return scores


def _between(x: Floats, grid: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The place to the left of x on an even grid, and how far x is to the next."""
    place = np.clip((x - grid[0]) / (grid[1] - grid[0]), 0, len(grid) - 1)
    left = np.minimum(place.astype(np.intp), len(grid) - 2)
    return left, place - left


def _slowest_gpus(
    composition: Composition, counts: list[int], score: Floats, log_y: Floats, uniform: Floats
) -> NDArray[np.intp]:
    """(entries,) number of the GPU that is the slowest, the first of its kind."""
    starts = np.cumsum([0, *counts[:-1]])
    if len(counts) == 1:
        return np.zeros(len(log_y), dtype=np.intp)
    shares = np.cumsum(slowest_kinds(composition, score, log_y), axis=0)
    first: NDArray[np.intp] = starts[(uniform > shares[:-1]).sum(axis=0)]
    return first


@lru_cache(maxsize=16)
def _uniforms(clusters: Clusters, group: int, rows: int) -> Floats:
    return inside_uniforms(clusters, INSIDE + group, range(rows))
