"""The mean step of random clusters, given what lasts in each of them.

Given the persistent slowness of its slowest units, a cluster's slowest GPU of a step is at most t
with probability exp(-L(t)), L the sum of those units' rates and of the rest's, the bulk: the mean
step is the integral of 1 - exp(-L). The bulk is annealed: its passing probabilities are averaged
over its slowness, so the mean over clusters is exact however few units are drawn. What the bulk
adds to the scatter between clusters is the sum of its units' own effects (Hájek's projection).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from service.model.cluster_ranks import GRID_SD, Clusters, Ranks, kept_ranks, ranks_of
from service.model.gpu_units import GpuBulk, GpuUnits
from service.model.node_units import NodeBulk, NodeUnits
from service.model.laws.law import Floats
from service.model.nodes import mapped_legendre

# Of the interval of t that is left out, about this probability at either end.
_ABOVE = 1e-10
_EXPONENT = 16.0
# Numbers of nodes; each is good for a range of log t of so many standard deviations of a step.
_NUM_NODES = (44, 64, 96, 144, 216, 324, 486)
_NODES_PER_SD = 4.0
# Distance of the grid of ranks in standard deviations of a step's factor, at most.
_GRID_STEP_SD = 0.25
_MAX_HALVINGS = 5
_MANY_DRAWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """So many units of one law; `group` tells their random numbers from those of others."""

    law: GpuUnits | NodeUnits
    num_units: float
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMeans:
    """Of the slowest GPU's factor in a step.

    mean           (clusters,) over the steps of a cluster, the bulk of it annealed
    bulk_variance  of the mean between clusters with the same slowest units
    step_variance  of one step within a cluster, on average
    """

    mean: Floats
    bulk_variance: float
    step_variance: float


class _Nodes(NamedTuple):
    """Nodes t and their weights in an integral over t, (nodes,), and the interval's upper end."""

    t: Floats
    weight: Floats
    high: float


def cluster_means(classes: Sequence[Class], clusters: Clusters) -> ClusterMeans:
    """Mean steps of the clusters."""
    ranks = [_ranks(one, clusters) for one in classes]
    nodes = _nodes(classes, ranks)
    rate = np.zeros((len(ranks[0].matrix), len(nodes.t)))
    bulks: list[tuple[float, GpuBulk | NodeBulk]] = []
    for one, drawn in zip(classes, ranks, strict=True):
        table = np.zeros((len(drawn.grid) + 1, len(nodes.t)))
        table[:-1] = one.law.top_rate(nodes.t, drawn.grid)
        if np.isfinite(drawn.limit):
            bulk = one.law.bulk(nodes.t, drawn.limit)
            table[-1] = bulk.rate
            bulks.append((float(drawn.matrix[:, -1].mean()), bulk))
        rate += drawn.matrix @ table
    return _integrated(nodes, rate, bulks)


def _integrated(
    nodes: _Nodes, rate: Floats, bulks: list[tuple[float, GpuBulk | NodeBulk]]
) -> ClusterMeans:
    below = np.exp(np.negative(rate, out=rate), out=rate)
    moments = below @ np.column_stack([nodes.weight, 2 * nodes.t * nodes.weight])
    mean = nodes.high - moments[:, 0]
    variance = nodes.high**2 - moments[:, 1] - mean * mean
    share = below.mean(axis=0) * nodes.weight
    return ClusterMeans(
        mean=mean,
        bulk_variance=sum(number * bulk.variance(share) for number, bulk in bulks),
        step_variance=max(float(variance.mean()), 0.0),
    )


def _ranks(one: Class, clusters: Clusters) -> Ranks:
    """On a grid on which neither the persistent factor nor a step's moves by much."""
    law = one.law
    steps = law.persistent_log_sd / law.step.log_sd * (GRID_SD / _GRID_STEP_SD)
    halvings = int(np.clip(np.ceil(np.log2(steps)), 0, _MAX_HALVINGS))
    find = ranks_of if clusters.draws > _MANY_DRAWS else kept_ranks
    return find(clusters, one.group, one.num_units, halvings)


def _nodes(classes: Sequence[Class], ranks: Sequence[Ranks]) -> _Nodes:
    ends = [_ends(one, drawn) for one, drawn in zip(classes, ranks, strict=True)]
    high = max(high for _, high in ends)
    low = max(*(low for low, _ in ends), 1e-9 * high)
    log_range = np.log(high / low)
    sd = min(one.law.step.log_sd for one in classes)
    wanted = _NODES_PER_SD * log_range / sd
    rule = mapped_legendre(next((n for n in _NUM_NODES if n >= wanted), _NUM_NODES[-1]))
    t = low * np.exp(rule.nodes * log_range)
    return _Nodes(t, rule.weights * t * log_range, high)


def _ends(one: Class, drawn: Ranks) -> tuple[float, float]:
    """Between these lie the steps of all clusters, as far as this class decides it."""
    law, step, n = one.law, one.law.step, one.num_units
    # Of n units a share is slower than some y: where their exponents alone are large, no step ends.
    share = 0.5 ** np.arange(1, max(np.log2(n / _EXPONENT), 1))
    at_share = np.log(-np.log1p(-share))
    slowest, fastest_slowest = drawn.slowest
    has_all = np.isfinite(fastest_slowest)
    limit = drawn.limit if np.isfinite(drawn.limit) else 1.0
    levels = np.concatenate(
        [[slowest, fastest_slowest if has_all else 0.0, np.log(limit)], at_share]
    )
    slowness = law.slowness(levels)
    exceeded = np.concatenate([[_ABOVE, _ABOVE / max(n, 1.0)], _EXPONENT / (n * share)])
    factor = step.high(np.minimum(exceeded, 1 - 1e-9))
    high = slowness[0] * factor[0]
    if np.isfinite(drawn.limit):
        high = max(high, slowness[2] * factor[1])
    low = slowness[1] * step.low(-_EXPONENT) if has_all else 0.0
    return max(low, float((slowness[3:] * factor[2:]).max(initial=0))), high
