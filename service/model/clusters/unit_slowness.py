"""The slowness of a unit, Y = A times the largest m_i P_i of its GPUs; and what A is, given Y."""

from functools import lru_cache
from typing import cast

import numpy as np
from scipy import special

from service.model.clusters.slowest_of_group import SlowestOf
from service.model.clusters.unit_members import HIGHEST, LOWEST, Composition, sd_of
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.nodes import legendre
from service.model.slowest.scores import log_at, score_at

_NODES, _MANY_NODES = 64, 240
_RANKS = 160
# The likely scores of the shared factor are looked for on a scan, and taken so far out.
_SCANNED, _FINELY = 40, 120
_NARROWEST = 1e-9
# Of units that are not among the slowest.
_BULK_SCORE = 5.8
_DIFFERENCE = 1e-4
_TINY = 1e-300
_ALMOST_ONE = 1 - 2.0**-53
_SMALLEST_RANK = 1e-18
_SAME_RANK = 1e-9


def rank_table(composition: Composition) -> tuple[Floats, Floats]:
    """log(-log P(log Y <= v)) and v, both (ranks,), the ranks ascending."""
    node, own = composition.node, composition.own
    # Even in score: a wide normal factor's logarithm falls without end. A unit is never below what
    # its slowest kind of GPU makes it.
    score = np.linspace(HIGHEST + 1, LOWEST, _RANKS)
    v = np.full(_RANKS, np.log(max(kind.mean for kind in composition.kinds)))
    for source in (node, own):
        if source is not None:
            v += log_at(source, score[:, np.newaxis])[:, 0]
    survival = _survival(composition, v)
    rate = -np.log1p(-np.minimum(survival, _ALMOST_ONE))
    # Where the law has ended, or has not begun, there is nothing to tell ranks by.
    told = (rate > _SMALLEST_RANK) & (survival < _ALMOST_ONE)
    ranks, v = np.log(rate[told]), v[told]
    rising = np.append(True, np.diff(np.maximum.accumulate(ranks)) > _SAME_RANK)
    return ranks[rising], v[rising]


def scores_below(composition: Composition, log_y: float, num_nodes: int) -> tuple[Floats, Floats]:
    """Scores of the shared factor, and their probabilities in a unit below y; (states,)."""
    if composition.node is None:
        return np.zeros(1), np.ones(1)
    lowest, highest = -_BULK_SCORE, _BULK_SCORE
    if composition.own is None:
        highest = float(_alone_scores(composition, np.full(1, log_y))[0])
    rule = legendre(num_nodes)
    score = lowest + (highest - lowest) * rule.nodes
    below = composition.rate_below(score, np.full(1, log_y))
    weight = rule.weights * np.exp(-score * score / 2 - below)
    return score, weight / weight.sum()


def scores_at(composition: Composition, log_y: Floats, num_nodes: int) -> tuple[Floats, Floats]:
    """Scores (units, states) of the shared factor of units at y, and their probabilities.

    The latter are (kinds, units, states): of a score together with the kind of the slowest GPU.
    """
    if composition.own is None:
        largest = max(kind.mean for kind in composition.kinds)
        of_kind = np.array([float(kind.mean == largest) for kind in composition.kinds])
        weight = np.ones((1, len(log_y), 1)) * of_kind[:, np.newaxis, np.newaxis]
        return _alone_scores(composition, log_y)[:, np.newaxis], weight / of_kind.sum()
    if composition.node is None:
        score = np.zeros((len(log_y), 1))
        weight = _density(composition, score, log_y)
        return score, weight / weight.sum(axis=(0, 2), keepdims=True)
    scan = _scan(composition, log_y, _SCANNED)
    density = _density(composition, scan, log_y)
    share = density.sum(axis=0)
    share /= share.sum(axis=1, keepdims=True)
    middle = (share * scan).sum(axis=1)
    sd = np.sqrt((share * (scan - middle[:, np.newaxis]) ** 2).sum(axis=1))
    sd = np.maximum(sd, scan[:, 1] - scan[:, 0])
    # Nearly normal about its mean: Gauss-Hermite nodes there need few.
    places, weights = _hermite(num_nodes * len(composition.kinds))
    score = middle[:, np.newaxis] + sd[:, np.newaxis] * places
    weight = weights * np.exp(places * places / 2) * _density(composition, score, log_y)
    return score, weight / weight.sum(axis=(0, 2), keepdims=True)


def score_quantiles(composition: Composition, log_y: Floats, levels: Floats) -> Floats:
    """(units, levels) the shared factor's score of a unit at y, by its own score among those."""
    scan = _scan(composition, log_y, _FINELY)
    density = _density(composition, scan, log_y)
    share = np.cumsum(density.sum(axis=0), axis=1)
    share = (share - density.sum(axis=0) / 2) / share[:, -1:]
    found = np.empty((len(log_y), len(levels)))
    for row, of_unit, scores in zip(found, share, scan, strict=True):
        row[:] = np.interp(special.ndtr(levels), of_unit, scores)
    return found


def slowest_kinds(composition: Composition, score: Floats, log_y: Floats) -> Floats:
    """(kinds, units) probabilities that the slowest GPU of a unit at y is of each kind."""
    density = _density(composition, score[:, np.newaxis], log_y)[..., 0]
    probabilities: Floats = density / density.sum(axis=0)
    return probabilities


def _scan(composition: Composition, log_y: Floats, per_sd: int) -> Floats:
    """(units, states) scores of the shared factor, where it can be in units at y.

    The slowest GPU's own factor is between its ends, the shared one makes up the rest of y: next
    to a wide shared factor that is a narrow range.
    """
    node, own = cast("Source", composition.node), cast("Source", composition.own)
    log_means = [np.log(kind.mean) for kind in composition.kinds]
    lowest, highest = log_at(own, np.array([[LOWEST], [HIGHEST]]))[:, 0]
    ends = [
        np.clip(score_at(node, (log_y - shift)[:, np.newaxis])[:, 0], LOWEST, HIGHEST)
        for shift in (highest + max(log_means), lowest + min(log_means))
    ]
    start, width = ends[0], np.maximum(ends[1] - ends[0], _NARROWEST)
    return start[:, np.newaxis] + width[:, np.newaxis] * np.linspace(0, 1, 2 * per_sd)


@lru_cache(maxsize=8)
def _hermite(num_nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the standard normal density, but for a factor."""
    places, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    return places, weights


def _density(composition: Composition, score: Floats, log_y: Floats) -> Floats:
    """(kinds, units, states) of the shared score and of that kind's GPU being the slowest, at y."""
    own = cast("Source", composition.own)
    below = np.exp(-score * score / 2 - composition.rate_below(score, log_y[:, np.newaxis]))
    log_a = composition.log_node(score)
    step = _DIFFERENCE * sd_of(own)
    found = np.empty((len(composition.kinds), *score.shape))
    for row, kind in zip(found, composition.kinds, strict=True):
        log_p = log_y[:, np.newaxis] - np.log(kind.mean) - log_a
        before = score_at(own, (log_p - step)[..., np.newaxis])[..., 0]
        after = score_at(own, (log_p + step)[..., np.newaxis])[..., 0]
        at = (before + after) / 2
        # d P(P <= p) / d log p over P(P <= p): this GPU is the slowest, the others are below.
        row[:] = (
            kind.number * below * np.exp(-at * at / 2 - special.log_ndtr(at)) * (after - before)
        )
    return found


def _alone_scores(composition: Composition, log_y: Floats) -> Floats:
    """(units,) of the shared factor where it alone makes the slowness y."""
    node = cast("Source", composition.node)
    largest = max(kind.mean for kind in composition.kinds)
    return score_at(node, (log_y - np.log(largest))[:, np.newaxis])[:, 0]


def _survival(composition: Composition, v: Floats) -> Floats:
    """(ranks,) P(log Y > v): the mean of the wider factor's over the narrower."""
    node, own, kinds = composition.node, composition.own, composition.kinds
    if node is None:
        return -np.expm1(-composition.rate_below(np.zeros(1), v))
    if own is None:
        return special.ndtr(-_alone_scores(composition, v))
    wide_node = sd_of(node) > sd_of(own)
    rule = legendre(_MANY_NODES if wide_node and len(kinds) > 1 else _NODES)
    score = LOWEST + (HIGHEST - LOWEST) * rule.nodes
    weight = rule.weights * np.exp(-score * score / 2)
    weight /= weight.sum()
    if wide_node and len(kinds) == 1:
        slowest = SlowestOf(law=own.law, number=kinds[0].number)
        factor = kinds[0].mean * slowest.at_score(score[:, np.newaxis], own.shape)[:, 0]
        x = np.exp(v)[:, np.newaxis] / np.maximum(factor, _TINY)
        above = -np.expm1(-node.law.rate(x[..., np.newaxis], node.shape)[..., 0])
    else:
        above = -np.expm1(-composition.rate_below(score, v[:, np.newaxis]))
    survival: Floats = above @ weight
    return survival
