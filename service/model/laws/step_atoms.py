"""One step of a GPU, its spikes included, as a sum over atoms."""

import numpy as np

from service.model.laws.bumpy_means import Atoms, Group
from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.nodes import legendre

_LOWEST, _HIGHEST = -8.2, 24.0
_PANELS, _NODES = 64, 16
# The phase across a panel that its nodes still follow.
_PHASE = 12.0
_PARTS_OF_TABLE, _NODES_OF_PART, _PHASE_OF_PART = 2000, 3, 2.5


def atoms_of_step(source: Source | None, probability: float, slowdown: float) -> Atoms:
    """Of a factor, `slowdown` times as long with this probability, over its expectation.

    `source` is of one point; None stands for a factor that is always 1.
    """
    plain = _plain(source)
    is_bounded = source is None or isinstance(source.law, Table)
    finest = 0.0 if is_bounded else float(np.sqrt((plain.weight * plain.beyond_one**2).sum()))
    excess = probability * (slowdown - 1)
    scale = 1 + excess
    healthy = Group(
        (plain.beyond_one - excess) / scale, (1 - probability) * plain.weight, plain.reach * scale
    )
    spiked = Group(
        (slowdown - 1 + slowdown * plain.beyond_one - excess) / scale,
        probability * plain.weight,
        plain.reach * scale / slowdown,
    )
    groups = tuple(group for group in (healthy, spiked) if group.weight.any())
    return Atoms(groups, finest / scale, is_bounded)


def _plain(source: Source | None) -> Group:
    """Of the factor itself, of mean 1."""
    if source is None:
        return Group(np.zeros(1), np.ones(1), np.inf)
    if isinstance(source.law, Table):
        return _of_table(source.law)
    rule = legendre(_NODES)
    width = (_HIGHEST - _LOWEST) / _PANELS
    z = _LOWEST + width * (np.arange(_PANELS)[:, np.newaxis] + rule.nodes)
    weight = (np.exp(-z * z / 2) * rule.weights).ravel()
    x = source.law.at_score(z.reshape(-1, 1), source.shape[:, :1])[:, 0]
    sd = np.sqrt((weight * (x - 1) ** 2).sum() / weight.sum())
    return _of_mean_one(x - 1, weight, float(_PHASE / (width * sd)))


def _of_table(table: Table) -> Group:
    rule = legendre(_NODES_OF_PART)
    spanned = float(table.knots[-1] - table.knots[0])
    if spanned == 0:
        return Group(np.zeros(1), np.ones(1), np.inf)
    longest = spanned / _PARTS_OF_TABLE
    width = np.diff(table.knots)
    parts = np.maximum(np.ceil(width / longest), 1).astype(np.int64)
    piece = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(piece)) - np.repeat(np.cumsum(parts) - parts, parts)
    place = (part[:, np.newaxis] + rule.nodes) / parts[piece][:, np.newaxis]
    x = table.knots[piece][:, np.newaxis] + width[piece][:, np.newaxis] * place
    weight = rule.weights / parts[piece][:, np.newaxis]
    return _of_mean_one(x.ravel() - 1, weight.ravel(), _PHASE_OF_PART / longest)


def _of_mean_one(beyond_one: Floats, weight: Floats, reach: float) -> Group:
    weight = weight / weight.sum()
    return Group(beyond_one - (weight * beyond_one).sum(), weight, reach)
