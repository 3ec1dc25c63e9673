"""Where in log time the distribution of the slowest changes, so that a quadrature looks there.

A copy of the GPUs' law (a class, its spikes) matters from the place where it keeps the slowest
above t almost surely, down to the place where hardly any GPU of it still exceeds t.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.scores import HIGHEST, LOWEST, highest_of, path

_SURELY, _HARDLY = 1e-13, 1e-13


class Copy(NamedTuple):
    """One copy of the law: its place, and how many GPUs it holds.

    shift        (points,) logarithm of the factor on the law of mean 1
    least, most  (points,) GPUs over the states of the fleet, each times its probability to be here
    """

    shift: Floats
    least: Floats
    most: Floats


def zones_of(
    sources: Sequence[Source],
    copies: Sequence[Copy],
    gpus_together: int,
    allowed: NDArray[np.int64],
) -> Floats:
    """(breaks, points) ascending, ends of the copies; the outermost are certain, not tight.

    `sources` are all factors but the common one, `gpus_together` share one, `allowed`
    GPUs (points,) may exceed.
    """
    lowest = path(sources, np.full(allowed.shape, LOWEST))
    highest = highest_of(sources, HIGHEST)
    ends = []
    for copy in copies:
        fewest = _fewest_allowed(copies, copy, allowed)
        low = copy.shift + _low(sources, copy, gpus_together, allowed)
        high = copy.shift + _high(sources, copy, fewest)
        ends += [low, np.maximum(low, high)]
    shifts = np.array([copy.shift for copy in copies])
    first, last = lowest + shifts.min(axis=0), highest + shifts.max(axis=0)
    inner = np.sort(np.clip(ends, first, last), axis=0)
    inner[0], inner[-1] = first, last
    return inner


def _low(
    sources: Sequence[Source], copy: Copy, gpus_together: int, allowed: NDArray[np.int64]
) -> Floats:
    """Above it lie more than `allowed` GPUs almost surely, were they in independent blocks."""
    expected = special.gammainccinv(allowed + 1.0, _SURELY)
    blocks = np.maximum(copy.least / gpus_together, 1e-300)
    share = np.minimum(expected / blocks, 1)
    score = np.clip(special.ndtri_exp(np.log1p(-np.minimum(share, 1 - 2.0**-53))), LOWEST, HIGHEST)
    return path(sources, score)


def _high(sources: Sequence[Source], copy: Copy, allowed: Floats) -> Floats:
    """Above it lie more than `allowed` GPUs hardly ever."""
    expected = special.gammaincinv(allowed + 1.0, _HARDLY)
    share = expected / np.maximum(copy.most, 1e-300)
    score = np.where(share < 0.5, -special.ndtri(np.minimum(share, 0.5)), HIGHEST)
    return path(sources, np.clip(score, LOWEST, HIGHEST))


def _fewest_allowed(copies: Sequence[Copy], copy: Copy, allowed: NDArray[np.int64]) -> Floats:
    """How many of this copy may exceed when all the others do."""
    others = np.sum([other.most for other in copies if other is not copy], axis=0)
    fewest: Floats = np.maximum(allowed - np.ceil(others), 0.0)
    return fewest
