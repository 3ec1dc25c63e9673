"""What lasts in random pipelined clusters: slow GPUs, persistent and node factors, who works."""

from collections.abc import Iterator

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.fixed_places import fixed_places
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import LANE, NODE, PERSISTENT, PLACES, Numbers
from service.model.recursion.score_factors import ScoreFactors

# Numbers that are sorted at a time.
_AT_ONCE = 1 << 19
_RANKS_AT_ONCE = 1 << 16


class LastingFactors:
    """Of GPUs that work, for any lanes of draws."""

    def __init__(self, cluster: OneCluster, seed: int) -> None:
        self._cluster = cluster
        fleet = cluster.fleet
        places = fixed_places(cluster)
        self._base = np.ones(cluster.num_held)
        self._base[: places.factor.size] = places.factor.ravel()
        self._is_free = np.ones(cluster.num_held, dtype=np.bool_)
        self._is_free[: places.is_free.size] = places.is_free.ravel()
        groups = [group for group in cluster.random_groups if group.factor > 1]
        self._counts = [group.number for group in groups]
        self._factors = np.repeat([group.factor for group in groups], self._counts)
        self._lanes = range(0)
        self._whole = np.empty((0, 0))
        self._places = Numbers(seed, PLACES)
        self._drawn = [
            (ScoreFactors(source), Numbers(seed, number), size)
            for source, number, size in (
                (fleet.persistent, PERSISTENT, 1),
                (fleet.node, NODE, int(fleet.gpus_per_node[0])),
            )
            if source is not None
        ]

    @property
    def is_constant(self) -> bool:
        """Whether all draws are alike."""
        return not self._drawn and not self._counts

    @property
    def is_one(self) -> bool:
        """Whether all GPUs are."""
        return self.is_constant and bool((self._base == 1).all())

    @property
    def needs_all(self) -> bool:
        """Whether a GPU's factor hangs on those of all others."""
        return bool(self._counts) or self._cluster.num_removed > 0

    def of_lanes(self, lanes: range, ranks: range) -> Floats:
        """(ranks, draws or 1) factors of working GPUs."""
        if not self.needs_all:
            return self._before(lanes, ranks)
        if lanes != self._lanes:
            self._whole = np.empty((0, 0))
            whole = self._before(lanes, range(self._cluster.num_held))
            removed = self._cluster.num_removed
            self._whole = without_slowest(whole, removed) if removed else whole
            self._lanes = lanes
        return self._whole[ranks.start : ranks.stop]

    def _before(self, lanes: range, ranks: range) -> Floats:
        """Likewise of all that are held."""
        base = self._base[ranks.start : ranks.stop, np.newaxis]
        if self.is_constant:
            return base
        factor = np.repeat(base, len(lanes) * LANE, axis=1)
        if self._counts:
            self._put_slow(lanes, factor)
        for first in range(0, len(ranks), _RANKS_AT_ONCE):
            some = ranks[first : first + _RANKS_AT_ONCE]
            for law, numbers, size in self._drawn:
                units = range(some.start // size, -(-some.stop // size))
                scores = numbers.scores(lanes, units)
                drawn = np.empty((len(scores), 1, scores.shape[1]))
                law.write(scores, drawn)
                factor[first : first + len(some)] *= drawn[np.array(some) // size - units.start, 0]
        return factor

    def _put_slow(self, lanes: range, factor: Floats) -> None:
        """On the free places of the smallest uniform numbers, in place; all GPUs."""
        order = self._places.uniforms(lanes, range(len(factor)))
        order[~self._is_free] = 2.0
        ends = np.cumsum(self._counts)
        for draws in _blocks_of_draws(factor):
            chosen = np.argpartition(order[:, draws], ends - 1, axis=0)[: ends[-1]]
            np.put_along_axis(factor[:, draws], chosen, self._factors[:, np.newaxis], axis=0)


def without_slowest(factor: Floats, number: int) -> Floats:
    """(GPUs - number, draws): each column without its largest, of equal ones the last.

    Those left stay where they are; the last ones take the places of those that went before them.
    """
    kept = np.empty((len(factor) - number, factor.shape[1]))
    for draws in _blocks_of_draws(factor):
        kept[:, draws] = _without_slowest(factor[:, draws], number)
    return kept


def _blocks_of_draws(factor: Floats) -> Iterator[slice]:
    """Some columns at a time: memory."""
    size = max(_AT_ONCE // len(factor), 1)
    for first in range(0, factor.shape[1], size):
        yield slice(first, first + size)


def _without_slowest(factor: Floats, number: int) -> Floats:
    left = len(factor) - number
    smallest = np.partition(factor, left, axis=0)[left]
    above, at = factor > smallest, factor == smallest
    # Of those at the limit the last ones go, as many as are missing.
    from_end = np.cumsum(at[::-1], axis=0)[::-1]
    removed = above | at & (from_end <= number - above.sum(axis=0))
    kept = factor[:left].T.copy()
    kept[removed[:left].T] = factor[left:].T[~removed[left:].T]
    in_place: Floats = kept.T
    return in_place
