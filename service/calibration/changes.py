"""Ranks that were slow in a part of the steps: an episode rather than a slow GPU."""

import itertools
from typing import NamedTuple

import numpy as np

from service.calibration.observed import median_of
from service.calibration.timings import BoolArray, FloatArray

MAX_BLOCKS = 48
MIN_BLOCK_STEPS = 3
MIN_STEPS = 5
"""Shorter ones are spikes that happened to be neighbours."""

MIN_EFFECT = 0.05
"""A part that is less than 5 % slower is no episode: it is left to spread and autocorrelation."""

DEVIATIONS = 6.0
"""By how many robust standard deviations of a block's median the part must differ."""

OVER_HALF_SHARE = 0.8
"""So many of the part's blocks must show at least half of its effect: one spike does not."""


class Change(NamedTuple):
    """Rows `first` to `last` (both inside) of the rank at `position` took `ratio` times as long.

    Or a `share` of them did.
    """

    position: int
    first: int
    last: int
    ratio: float
    deviations: float
    share: float = 1.0


def changes_of(relative: FloatArray) -> list[Change]:
    """Of cells by their step's median, (steps, ranks).

    Steps are put into at most 48 blocks of at least 3; a block counts by its median, so that single
    slow steps do not. For each rank the contiguous part that stands out most from the rest of the
    same rank is found by trying all, and kept where it differs by 5 % and by 6 robust standard
    deviations of the blocks (of all ranks in the middle, of the rank's own where they are larger).
    """
    num_steps = len(relative)
    num_blocks = min(MAX_BLOCKS, num_steps // MIN_BLOCK_STEPS)
    if num_blocks < 4:
        return []
    edges = np.linspace(0, num_steps, num_blocks + 1).astype(np.int64)
    blocks = np.stack(
        [median_of(relative[start:stop], axis=0) for start, stop in itertools.pairwise(edges)]
    )
    complete = np.isfinite(blocks).all(axis=0)
    blocks = np.where(complete, blocks, 1.0)
    first, last, gain = _best_parts(blocks)
    found = []
    for position in np.flatnonzero(complete & (np.abs(gain) >= MIN_EFFECT)).tolist():
        inside = np.zeros(num_blocks, dtype=np.bool_)
        inside[first[position] : last[position] + 1] = True
        change = _checked(relative[:, position], blocks, position, inside, edges)
        if change is not None:
            found.append(change)
    return found


def _best_parts(blocks: FloatArray) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """First and last block of each rank's most significant part, and what it differs by."""
    num_blocks, num_ranks = blocks.shape
    sums = np.concatenate([np.zeros((1, num_ranks)), np.cumsum(blocks, axis=0)])
    total = sums[-1]
    best = np.zeros(num_ranks)
    first, last = np.zeros((2, num_ranks), dtype=np.int64)
    gain = np.zeros(num_ranks)
    for start in range(num_blocks):
        for stop in range(start, num_blocks):
            length = stop - start + 1
            if length == num_blocks:
                continue
            inside = sums[stop + 1] - sums[start]
            differs = inside / length - (total - inside) / (num_blocks - length)
            score = differs * np.sqrt(length * (num_blocks - length))
            # The slower side is the part: of two halves the one that takes longer.
            better = score > best
            best = np.where(better, score, best)
            first = np.where(better, start, first)
            last = np.where(better, stop, last)
            gain = np.where(better, differs, gain)
    return first, last, gain


def _checked(
    series: FloatArray, blocks: FloatArray, position: int, inside: BoolArray, edges: np.ndarray
) -> Change | None:
    own = blocks[:, position]
    level = float(np.median(own[~inside]))
    effect = float(np.median(own[inside])) - level
    noise = max(_block_noise(blocks), 1.4826 * float(np.median(np.abs(own[~inside] - level))))
    share = float(np.mean(own[inside] - level >= effect / 2))
    stray = float(np.mean(own[~inside] - level < effect / 2))
    if effect < max(MIN_EFFECT * level, DEVIATIONS * noise):
        return None
    if share < OVER_HALF_SHARE or stray < OVER_HALF_SHARE:
        return None
    where = np.flatnonzero(inside)
    first, last = _sharp(
        series, int(edges[where[0]]), int(edges[where[-1] + 1]), level + effect / 2
    )
    if last - first + 1 < MIN_STEPS:
        return None
    return Change(position, first, last, 1 + effect / level, effect / max(noise, 1e-12))


def _block_noise(blocks: FloatArray) -> float:
    """Robust standard deviation of a block about its rank, of the rank in the middle."""
    from_rank = np.abs(blocks - np.median(blocks, axis=0))
    return 1.4826 * float(np.median(np.median(from_rank, axis=0)))


def _sharp(series: FloatArray, start: int, stop: int, middle: float) -> tuple[int, int]:
    """First and last row above the middle, from the blocks' edges outwards and inwards.

    `stop` is one beyond. A block beside it may hold the edge itself, so a block's width is tried.
    """
    above = np.where(np.isfinite(series), series > middle, False)
    first, last = start, stop - 1
    while first > 0 and above[first - 1]:
        first -= 1
    while last + 1 < len(series) and above[last + 1]:
        last += 1
    while first < last and not above[first]:
        first += 1
    while last > first and not above[last]:
        last -= 1
    return first, last
