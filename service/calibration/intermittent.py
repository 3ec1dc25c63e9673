"""Ranks whose compute is not the same all the time: slow now and then, or slower and slower."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy import special

from service.calibration.changes import Change
from service.calibration.observed import median_of
from service.calibration.timings import BoolArray, FloatArray

MIN_EFFECT = 0.10
"""A rank that is slower by less now and then, or by less at the end, is left to spread."""

MIN_STEPS = 4
"""On either level; fewer are single events."""

MIN_SEPARATION = 4.5
"""Distance of two levels by the standard deviation about them. One law of one peak cut in two shows
2.7 (normal), 3.5 (uniform) or 3.3 (exponential)."""

MAX_CHANCE = 1e-3
"""That so many slow cells are all this rank's own, if any rank's were as likely."""

MAX_BLOCKS = 10
MIN_BLOCK_STEPS = 3
MIN_BLOCKS = 4
MIN_CORRELATION = 0.9
"""Of a rank's blocks with time; a single change in the middle shows 0.87."""

DEVIATIONS = 6.0
"""By how many robust standard deviations of all ranks' drifts one must differ."""


class Levels(NamedTuple):
    """Two levels of a series, (steps,): what it takes when it is fast, and when it is slow."""

    fast: float
    slow: float
    is_slow: BoolArray


class Drift(NamedTuple):
    """The rank at `position` went from one level to another."""

    position: int
    start: float
    end: float


def levels_of(series: FloatArray) -> Levels | None:
    """The two levels of a series with NaN; None where it has one.

    By the cut that leaves the least variance about the means of logarithms on its sides.
    """
    known = np.isfinite(series)
    logs = np.sort(np.log(series[known]))
    num = len(logs)
    if num < 2 * MIN_STEPS:
        return None
    sums, squares = np.cumsum(logs), np.cumsum(logs * logs)
    below = np.arange(MIN_STEPS, num - MIN_STEPS + 1)
    above = num - below
    left, right = sums[below - 1] / below, (sums[-1] - sums[below - 1]) / above
    within = np.maximum(squares[-1] - below * left**2 - above * right**2, 0.0) / (num - 2)
    best = int(within.argmin())
    distance = float(right[best] - left[best])
    if distance < max(math.log1p(MIN_EFFECT), MIN_SEPARATION * math.sqrt(float(within[best]))):
        return None
    middle = math.exp((logs[below[best] - 1] + logs[below[best]]) / 2)
    is_slow: BoolArray = np.where(known, series, 0.0) > middle
    return Levels(math.exp(float(left[best])), math.exp(float(right[best])), is_slow)


def intermittent_of(relative: FloatArray, ranks: BoolArray) -> list[Change]:
    """Of these ranks, (ranks,), those that alone are slow now and then, by cells (steps, ranks).

    Such a rank has two levels, and cells as slow as its own are so rare among the others that they
    cannot be spikes of any rank: by the binomial law of as many cells at any of the ranks.
    """
    num_ranks = int(ranks.sum())
    known = np.isfinite(relative)
    highest = np.where(known, relative, 0.0).max(axis=0)
    lowest = np.where(known, relative, np.inf).min(axis=0)
    may: BoolArray = ranks & (highest >= (1 + MIN_EFFECT) * lowest)
    found = []
    for position in np.flatnonzero(may).tolist():
        levels = levels_of(relative[:, position])
        if levels is None:
            continue
        own = int(levels.is_slow.sum())
        limit = math.sqrt(levels.fast * levels.slow)
        total = int((known & ranks & (relative > limit)).sum())
        chance = num_ranks * float(special.bdtrc(own - 1, max(total, own), 1 / num_ranks))
        if num_ranks == 1 or chance > MAX_CHANCE:
            continue
        where = np.flatnonzero(levels.is_slow)
        first, last = int(where[0]), int(where[-1])
        ratio = levels.slow / levels.fast
        noise = 1.4826 * float(np.nanmedian(np.abs(relative[:, position] / levels.fast - 1)))
        deviations = (ratio - 1) / max(noise, 1e-12)
        share = own / (last - first + 1)
        found.append(Change(position, first, last, ratio, deviations, share))
    return found


def drifts_of(relative: FloatArray) -> list[Drift]:
    """Ranks that get slower or faster all the time, by cells (steps, ranks) of level 1.

    By the straight line through the logarithms of medians of up to ten blocks of steps.
    """
    num_steps = len(relative)
    num_blocks = min(MAX_BLOCKS, num_steps // MIN_BLOCK_STEPS)
    if num_blocks < MIN_BLOCKS:
        return []
    edges = np.linspace(0, num_steps, num_blocks + 1).astype(np.int64)
    blocks = np.log(
        np.stack(
            [median_of(relative[start:stop], axis=0) for start, stop in itertools.pairwise(edges)]
        )
    )
    time = np.linspace(-0.5, 0.5, num_blocks)
    centred = blocks - blocks.mean(axis=0)
    moved = time @ centred / float(time @ time)
    size = np.sqrt(float(time @ time) * (centred * centred).sum(axis=0))
    correlation = np.abs(time @ centred) / np.maximum(size, 1e-300)
    told = np.isfinite(moved)
    if not told.any():
        # Every rank is missing in a whole block.
        return []
    usual = 1.4826 * float(np.median(np.abs(moved[told])))
    drifts: BoolArray = np.abs(moved) >= max(math.log1p(MIN_EFFECT), DEVIATIONS * usual)
    drifts &= correlation >= MIN_CORRELATION
    level = blocks.mean(axis=0)
    return [
        Drift(
            position,
            math.exp(float(level[position] - moved[position] / 2)),
            math.exp(float(level[position] + moved[position] / 2)),
        )
        for position in np.flatnonzero(drifts).tolist()
    ]
