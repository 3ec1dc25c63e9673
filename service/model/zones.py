"""Where in log time the distribution of the slowest changes, so that a quadrature looks there.

A copy of the GPUs' law (a class, its spikes) matters from the place where it keeps the slowest
above t almost surely, down to the place where hardly any GPU of it still exceeds t.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.fleet import Source
from service.model.laws.law import Floats
from service.model.scores import HIGHEST, LOWEST, path

_SURELY, _HARDLY = 1e-13, 1e-13


class Copy(NamedTuple):
    """One copy of the law: its place, and how many GPUs it holds.

    shift        (points,) logarithm of the factor on the law of mean 1
    least, most  (points,) GPUs over the states of the fleet, each times its probability to be here
    certain      whether its GPUs are always here (a class) or only sometimes (spikes)
    """

    shift: Floats
    least: Floats
    most: Floats
    certain: bool


def zones_of(
    sources: Sequence[Source],
    copies: Sequence[Copy],
    gpus_together: int,
    allowed: NDArray[np.int64],
) -> Floats:
    """(breaks, points) ascending, the ends of all copies between those of the slowest.

    `sources` are all factors but the common one, `gpus_together` share one, `allowed`
    GPUs (points,) may exceed.
    """
    lows = np.array([_low(sources, copy, gpus_together, allowed) for copy in copies])
    fewest_allowed = np.array([_fewest_allowed(copies, copy, allowed) for copy in copies])
    highs = np.array([_high(sources, *pair) for pair in zip(copies, fewest_allowed, strict=True)])
    held = np.array([copy.certain & (copy.least > allowed) for copy in copies])
    present = np.array([copy.most > 0 for copy in copies])
    surely = np.where(held, lows, -np.inf).max(axis=0)
    anywhere = np.where(present, lows, np.inf).min(axis=0)
    low = np.where(held.any(axis=0), surely, anywhere)
    high = np.where(present, highs, -np.inf).max(axis=0)
    inner = np.concatenate([lows, highs])
    inner = np.clip(np.where(np.tile(present, (2, 1)), inner, low), low, high)
    inner = np.sort(inner, axis=0)
    inner[0], inner[-1] = low, high
    return inner


def _low(
    sources: Sequence[Source], copy: Copy, gpus_together: int, allowed: NDArray[np.int64]
) -> Floats:
    """Above it lie more than `allowed` GPUs almost surely, were they in independent blocks."""
    expected = special.gammainccinv(allowed + 1.0, _SURELY)
    blocks = np.maximum(copy.least / gpus_together, 1e-300)
    share = np.minimum(expected / blocks, 1)
    score = np.clip(special.ndtri_exp(np.log1p(-np.minimum(share, 1 - 2.0**-53))), LOWEST, HIGHEST)
    return path(sources, score) + copy.shift


def _high(sources: Sequence[Source], copy: Copy, allowed: Floats) -> Floats:
    """Above it lie more than `allowed` GPUs hardly ever."""
    expected = special.gammaincinv(allowed + 1.0, _HARDLY)
    share = expected / np.maximum(copy.most, 1e-300)
    score = np.where(share < 0.5, -special.ndtri(np.minimum(share, 0.5)), HIGHEST)
    return path(sources, np.clip(score, LOWEST, HIGHEST)) + copy.shift


def _fewest_allowed(copies: Sequence[Copy], copy: Copy, allowed: NDArray[np.int64]) -> Floats:
    """How many of this copy may exceed when all the others do."""
    others = np.sum([other.most for other in copies if other is not copy], axis=0)
    return np.maximum(allowed - np.ceil(others), 0.0)
