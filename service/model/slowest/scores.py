"""Factors by their normal score: the logarithm of a factor at a score, and back.

Logarithms, because factors multiply.
"""

from collections.abc import Sequence

import numpy as np
from scipy import special

from service.model.laws.law import Floats
from service.model.laws.lognormal import LogNormal
from service.model.laws.normal import Normal
from service.model.laws.source import Source
from service.model.slowest.panels import interpolated, nodes_of

LOWEST = -8.2
"""Score below which a factor lies with probability 1e-16."""
HIGHEST = 9.6
"""Score above which one of ten million lies with probability 1e-14."""
_PANELS = 14
_SMALLEST = 1e-12
# A score that even the largest of a few companions of an extreme factor does not exceed.
_COMPANION = 3.5


def log_sd(source: Source) -> Floats:
    """(points,) the spread of the factor's logarithm, that of a lognormal of the same cv."""
    spread: Floats = np.sqrt(np.log1p(source.shape[0] ** 2))
    return spread


def log_at(source: Source, z: Floats) -> Floats:
    """The factor's logarithm at score z, (..., points)."""
    if source.law is LogNormal:
        spread = log_sd(source)
        return spread * (z - spread / 2)
    log_x: Floats = np.log(np.maximum(source.law.at_score(z, source.shape), _SMALLEST))
    return log_x


def score_at(source: Source, log_x: Floats) -> Floats:
    """The score at which the factor's logarithm is `log_x`, (..., points); LOWEST to HIGHEST."""
    if source.law is LogNormal:
        spread = log_sd(source)
        found = log_x / spread + spread / 2
    else:
        rate = source.law.rate(np.exp(np.minimum(log_x, 700)), source.shape)
        upper = -special.ndtri(-np.expm1(-rate))
        found = np.where(rate < 1, upper, special.ndtri_exp(-rate))
    return np.clip(found, LOWEST, HIGHEST)


class LogFactor:
    """`log_at` of one source, from a table where the law's own quantiles are expensive."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._table = None
        if source.law not in (LogNormal, Normal):
            edges = np.linspace(LOWEST, HIGHEST, _PANELS + 1)[:, np.newaxis]
            edges = np.repeat(edges, source.shape.shape[1], axis=1)
            self._table = interpolated(edges, log_at(source, nodes_of(edges))[np.newaxis])

    def at(self, z: Floats) -> Floats:
        """(..., points), z within LOWEST and HIGHEST."""
        if self._table is None:
            return log_at(self._source, z)
        log_x: Floats = self._table.values(z)[0]
        return log_x


def path(sources: Sequence[Source], z: Floats) -> Floats:
    """Where the product of the factors has score z, roughly; (..., points) of its logarithm.

    The likeliest way for a product to lie at score z is that each factor lies at z times its part
    of the spread: exact for lognormals.
    """
    spreads = np.array([log_sd(source) for source in sources])
    parts = spreads / np.sqrt((spreads**2).sum(axis=0))
    logs = [log_at(source, z * part) for source, part in zip(sources, parts, strict=True)]
    place: Floats = np.add.reduce(logs)
    return place


def highest_of(sources: Sequence[Source], score: float) -> Floats:
    """(points,) a place that the product's logarithm exceeds no more likely than that score.

    In heavy tails one factor goes there alone, the others are its companions.
    """
    z = np.full(sources[0].shape.shape[1], score)
    companions = [log_at(source, np.minimum(z, _COMPANION)) for source in sources]
    alone = [
        np.add.reduce(companions) - companion + log_at(source, z)
        for source, companion in zip(sources, companions, strict=True)
    ]
    place: Floats = np.maximum(path(sources, z), np.max(alone, axis=0))
    return place
