"""The slowest units of random clusters, as a step sees them.

Two ways. By rank: a unit's probability to pass, given its slowness, is a function of its rank; it
serves GPUs, and units whose GPUs share a step's factor. By GPU: the GPUs of the slowest units are
drawn one by one, which tells their own scatter and which ones are the slowest of all, to be taken
away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.clusters.cluster_draws import Clusters
from service.model.clusters.cluster_ranks import Drawn, drawn_units, num_rows
from service.model.clusters.entry_sums import EntrySums, entry_sums
from service.model.clusters.step_factor import StepFactor
from service.model.laws.law import Floats

# Distances of the grids: in standard deviations of the lasting factors, and of a step's.
_LASTING_SD = 0.16
_STEP_SD = 0.25
_MOST_HALVINGS = 4
# A GPU that exceeds the lowest t less often than this does not matter.
_NEVER = 1e-8


class Bulk(Protocol):
    """A unit that is not among the slowest, at nodes t."""

    @property
    def rate(self) -> Floats:
        """(nodes,) -log of its probability to pass t."""

    def variance(self, share: Floats, /) -> float:
        """Of the integral of passing (over the mean one) times share over its lasting factors."""


class Units(Protocol):
    """The law of a class of units."""

    @property
    def step(self) -> StepFactor:
        """Of a GPU."""

    @property
    def shared_step(self) -> tuple[float, float]:
        """Between these lies the factor of a step that its GPUs share; 1 if they share none."""

    @property
    def lasting_log_sd(self) -> float:
        """About the standard deviation of the slowness's logarithm."""

    @property
    def by_gpu(self) -> bool:
        """Whether its slowest units are better drawn GPU by GPU."""

    @property
    def num_gpus(self) -> int:
        """Of a unit."""

    def slowness(self, log_rank: Floats, /) -> Floats:
        """(units,) the lasting factor of that rank."""

    def top_rate(self, t: Floats, log_rank: Floats, /) -> Floats:
        """(units, nodes) -log P(passes t | slowness of that rank)."""

    def bulk(self, t: Floats, limit: float, /) -> Bulk:
        """Units of which -log P(Y <= y) is above `limit`."""

    def gpus(
        self, drawn: Drawn, clusters: Clusters, group: int, /
    ) -> tuple[NDArray[np.intp], Floats]:
        """Cluster and log slowness of each GPU of the drawn units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """So many units of one law; `group` tells their random numbers from those of others.

    The number may be an expectation, after `before` expected units of earlier classes.
    """

    law: Units
    num_units: float
    group: int
    before: float = 0.0

    def num_drawn(self, num_removed: int) -> int:
        """Units drawn of a cluster, or their GPUs if they are drawn, at most."""
        gpus = self.law.num_gpus if num_removed > 0 or self.law.by_gpu else 1
        return num_rows(self.num_units, num_removed) * gpus


class Top(NamedTuple):
    """The drawn units of all classes.

    slowest   log slowness of the slowest unit of all, and of the cluster whose slowest is the
              fastest (minus infinity if it has none drawn)
    num_bulk  (classes, clusters) units that were not drawn, limits (classes,) of -log U for them,
              infinite where there are none
    rate      from t (nodes,) to the drawn units' rates together, (clusters, nodes)
    """

    slowest: tuple[float, float]
    num_bulk: Floats
    limits: list[float]
    rate: Callable[[Floats], Floats]


class _Ranked(NamedTuple):
    sums: EntrySums
    slowest: Floats
    number: NDArray[np.intp]
    limit: float


class _Gpus(NamedTuple):
    """The drawn units of each class, and cluster and log slowness of their GPUs that are left."""

    drawn: list[Drawn]
    cluster: NDArray[np.intp]
    log_slowness: Floats


def top_by_rank(classes: Sequence[Class], clusters: Clusters) -> Top:
    """By rank."""
    found = [_ranked_of(one, clusters) for one in classes]
    ends = np.array(
        [_log_slowness(one.law, ranked.slowest) for one, ranked in zip(classes, found, strict=True)]
    )

    def rate(t: Floats) -> Floats:
        total = np.zeros((clusters.stop - clusters.start, len(t)))
        for one, ranked in zip(classes, found, strict=True):
            total += ranked.sums.matrix @ one.law.top_rate(t, ranked.sums.grid)
        return total

    return Top(
        slowest=(float(ends[:, 0].max()), float(ends[:, 1].max())),
        num_bulk=_num_bulk(classes, [ranked.number for ranked in found]),
        limits=[ranked.limit for ranked in found],
        rate=rate,
    )


def top_by_gpu(classes: Sequence[Class], clusters: Clusters, num_removed: int) -> Top:
    """By GPU, without the `num_removed` slowest GPUs of each cluster."""
    gpus = _drawn_gpus(classes, clusters, num_removed)
    cluster, log_slowness = gpus.cluster, gpus.log_slowness
    size = clusters.stop - clusters.start
    slowest = _slowest(gpus, size)
    step = classes[0].law.step
    lasting_sd = min(one.law.lasting_log_sd for one in classes)
    distance = min(_LASTING_SD * lasting_sd, _STEP_SD * step.log_sd)

    def rate_of_each(t: Floats) -> Floats:
        """Where interpolation has a pole in its way."""
        found = np.empty((size, len(t)))
        slowness = np.exp(log_slowness)
        for node, of_node in zip(t.tolist(), found.T, strict=True):
            of_node[:] = np.bincount(cluster, step.rate(node / slowness), size)
        return found

    def rate(t: Floats) -> Floats:
        lowest = np.log(t[0] / step.high(np.full(1, _NEVER))[0])
        sums = entry_sums(np.maximum(log_slowness, lowest), cluster, size, distance)
        rates: Floats = sums.matrix @ step.rate(t / np.exp(sums.grid)[:, np.newaxis])
        return rates

    return Top(
        slowest=(float(slowest.max()), float(slowest.min())),
        num_bulk=_num_bulk(classes, [of_class.number for of_class in gpus.drawn]),
        limits=[of_class.limit for of_class in gpus.drawn],
        rate=rate_of_each if step.is_abrupt else rate,
    )


def slowest_of_clusters(classes: Sequence[Class], clusters: Clusters, num_removed: int) -> Floats:
    """(clusters,) the slowness of the slowest GPU that is left."""
    gpus = _drawn_gpus(classes, clusters, num_removed)
    return np.exp(_slowest(gpus, clusters.stop - clusters.start))


def _drawn_gpus(classes: Sequence[Class], clusters: Clusters, num_removed: int) -> _Gpus:
    drawn = [
        drawn_units(clusters, one.group, one.num_units, num_removed, one.before) for one in classes
    ]
    gpus = [
        one.law.gpus(of_class, clusters, one.group)
        for one, of_class in zip(classes, drawn, strict=True)
        if len(of_class.row)
    ]
    cluster = np.concatenate([of_class[0] for of_class in gpus])
    log_slowness = np.concatenate([of_class[1] for of_class in gpus])
    if num_removed > 0:
        cluster, log_slowness = _without_slowest(cluster, log_slowness, num_removed)
    return _Gpus(drawn, cluster, log_slowness)


def _slowest(gpus: _Gpus, num_clusters: int) -> Floats:
    """(clusters,) its logarithm; minus infinity where none is left."""
    slowest = np.full(num_clusters, -np.inf)
    np.maximum.at(slowest, gpus.cluster, gpus.log_slowness)
    return slowest


def _num_bulk(classes: Sequence[Class], numbers: Sequence[NDArray[np.intp]]) -> Floats:
    return np.array(
        [one.num_units - of_class for one, of_class in zip(classes, numbers, strict=True)]
    )


def _without_slowest(
    cluster: NDArray[np.intp], log_slowness: Floats, num_removed: int
) -> tuple[NDArray[np.intp], Floats]:
    order = np.lexsort((-log_slowness, cluster))
    cluster, log_slowness = cluster[order], log_slowness[order]
    place = np.arange(len(cluster)) - np.searchsorted(cluster, cluster)
    kept = place >= num_removed
    return cluster[kept], log_slowness[kept]


def _log_slowness(law: Units, ranks: Floats) -> Floats:
    """Of -log U; minus infinity where that is infinite."""
    there = np.isfinite(ranks)
    return np.where(there, np.log(law.slowness(np.log(np.where(there, ranks, 1.0)))), -np.inf)


def _ranked_of(one: Class, clusters: Clusters) -> _Ranked:
    """On a grid on which neither the lasting factor nor a step's moves by much."""
    steps = one.law.lasting_log_sd / one.law.step.log_sd * (_LASTING_SD / _STEP_SD)
    halvings = int(np.clip(np.ceil(np.log2(steps)), 0, _MOST_HALVINGS))
    return _ranked(clusters, one.group, (one.num_units, one.before), halvings)


# Points that differ in other things than the number of units share them.
@lru_cache(maxsize=48)
def _ranked(
    clusters: Clusters, group: int, num_units: tuple[float, float], halvings: int
) -> _Ranked:
    drawn = drawn_units(clusters, group, num_units[0], before=num_units[1])
    # Where no cluster has such a unit there is nothing to put on a grid.
    highest = float(drawn.log_rank.max()) if len(drawn.row) else 0.0
    distance = _LASTING_SD / _score_slope(highest) * 0.5**halvings
    size = clusters.stop - clusters.start
    first = drawn.row == 0
    slowest = np.exp(drawn.log_rank[first])
    fastest = slowest.max(initial=0.0) if np.count_nonzero(first) == size else np.inf
    return _Ranked(
        sums=entry_sums(drawn.log_rank, drawn.cluster, size, distance),
        slowest=np.array([slowest.min(initial=np.inf), fastest]),
        number=drawn.number,
        limit=drawn.limit,
    )


def _score_slope(log_rank: float) -> float:
    """How fast the normal score of U falls with log(-log U)."""
    rank = np.exp(log_rank)
    score = special.ndtri(-np.expm1(-rank))
    return float(rank * np.exp(score * score / 2 - rank) * np.sqrt(2 * np.pi))
