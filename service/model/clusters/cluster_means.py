"""The mean step of random clusters, given what lasts in each of them.

Given the lasting slowness of its slowest units, a cluster's slowest GPU of a step is at most t with
probability exp(-L(t)), L the sum of those units' rates and of the rest's, the bulk: the mean step
is the integral of 1 - exp(-L). The bulk is annealed: its passing probabilities are averaged over
its slowness, so the mean over clusters is exact however few units are drawn. What the bulk adds to
the scatter between clusters is the sum of its units' own effects (Hájek's projection).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from service.model.clusters.cluster_draws import Clusters
from service.model.clusters.cluster_tops import (
    Bulk,
    Class,
    Top,
    slowest_of_clusters,
    top_by_gpu,
    top_by_rank,
)
from service.model.clusters.episode_effects import NO_SLOWDOWN, Slowdown, effective
from service.model.exchange.shared_lines import StepLines
from service.model.laws.law import Floats
from service.model.slowest.nodes import mapped_legendre

# Of the interval of t that is left out, about this probability at either end.
_ABOVE = 1e-10
_EXPONENT = 16.0
# Numbers of nodes; each is good for a range of log t of so many standard deviations of a step.
_NUM_NODES = (44, 64, 96, 144, 216, 324, 486, 729)
_NODES_PER_SD = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMeans:
    """Of the slowest GPU's factor in a step.

    mean           (clusters,) over the steps of a cluster, the bulk of it annealed
    bulk_variance  of the mean between clusters with the same slowest units
    step_variance  of one step within a cluster, on average
    by_state       (states, 1) the mean over clusters in each state; `mean` is the effective one
    """

    mean: Floats
    bulk_variance: float
    step_variance: float
    by_state: Floats


class _Nodes(NamedTuple):
    """Of an integral over what a step takes, (nodes,) each.

    t       the slowest factor
    value   what a step takes there, as a factor: t, or that of the lines
    weight  of an integral over the value
    high    the value at the interval's upper end
    """

    t: Floats
    value: Floats
    weight: Floats
    high: float


def cluster_means(
    classes: Sequence[Class],
    clusters: Clusters,
    num_removed: int = 0,
    slowdown: Slowdown = NO_SLOWDOWN,
    *,
    varies_per_step: bool = True,
    lines: StepLines | None = None,
) -> ClusterMeans:
    """Mean steps of the clusters, without their slowest GPUs, over all states.

    `lines` (lines, 1) tell what a step takes given its slowest factor.
    """
    if not varies_per_step:
        slowest = slowest_of_clusters(classes, clusters, num_removed)
        return _of_equal_steps(slowest if lines is None else _values(lines, slowest))
    if num_removed > 0 or any(one.law.by_gpu for one in classes):
        top = top_by_gpu(classes, clusters, num_removed)
    else:
        top = top_by_rank(classes, clusters)
    nodes = _nodes(classes, top, slowdown.severity, lines)
    rate = top.rate(nodes.t)
    bulks: list[tuple[float, Bulk]] = []
    for one, limit, number in zip(classes, top.limits, top.num_bulk, strict=True):
        if np.isfinite(limit):
            bulk = one.law.bulk(nodes.t, limit)
            rate += np.multiply.outer(number, bulk.rate)
            bulks.append((float(number.sum()) / len(number), bulk))
    return _integrated(nodes, rate, bulks, slowdown)


def _of_equal_steps(slowest: Floats) -> ClusterMeans:
    """The slowest GPU that is left is the slowest of every step."""
    return ClusterMeans(
        mean=slowest, bulk_variance=0.0, step_variance=0.0, by_state=np.full((1, 1), slowest.mean())
    )


def _integrated(
    nodes: _Nodes, rate: Floats, bulks: list[tuple[float, Bulk]], slowdown: Slowdown
) -> ClusterMeans:
    below = np.exp(np.negative(rate, out=rate), out=rate)
    in_state = np.exp(-slowdown.added(nodes.t))
    weights = nodes.weight * in_state
    mean = nodes.high - below @ weights.T
    square = nodes.high**2 - below @ (2 * nodes.value * weights).T
    # An effect on the mean of 1 / (rho + m) as one on m: all states alike.
    even = np.full(len(below), 1 / len(below))
    share = even @ below * (slowdown.weight @ weights)
    step_variance = even @ (square - mean * mean) @ slowdown.weight
    return ClusterMeans(
        mean=effective(mean.T, slowdown.weight, slowdown.outside_ratio),
        bulk_variance=sum(number * bulk.variance(share) for number, bulk in bulks),
        step_variance=max(float(step_variance), 0.0),
        by_state=(even @ mean)[:, np.newaxis],
    )


def _nodes(classes: Sequence[Class], top: Top, severity: float, lines: StepLines | None) -> _Nodes:
    step = classes[0].law.step
    high = np.exp(top.slowest[0]) * step.high(np.full(1, _ABOVE))[0]
    low = np.exp(top.slowest[1]) * step.low(-_EXPONENT)
    for one, limit in zip(classes, top.limits, strict=True):
        lowest, highest = _ends(one, limit)
        low, high = max(low, lowest), max(high, highest)
    shared_low, shared_high = classes[0].law.shared_step
    low, high = low * shared_low, high * shared_high * severity
    log_range = np.log(high / max(low, 1e-9 * high))
    # Two humps, each narrower than the range between them.
    per_sd = _NODES_PER_SD if step.spike_probability == 0 else 4 * _NODES_PER_SD
    rule = mapped_legendre(_enough(per_sd * log_range / step.log_sd))
    t = high * np.exp((rule.nodes - 1) * log_range)
    weight = rule.weights * t * log_range
    if lines is None:
        return _Nodes(t, t, weight, high)
    # What a step rises by over a node's share of the interval: a knot within counts on both sides.
    edges = high - np.append(np.cumsum(weight[::-1])[::-1], 0.0)
    values = _values(lines, edges)
    return _Nodes(t, _values(lines, t), np.diff(values), float(values[-1]))


def _values(lines: StepLines, t: Floats) -> Floats:
    """Of one point's lines."""
    values: Floats = lines.value(t[:, np.newaxis])[:, 0]
    return values


def _enough(wanted: float) -> int:
    return next((number for number in _NUM_NODES if number >= wanted), _NUM_NODES[-1])


def _ends(one: Class, limit: float) -> tuple[float, float]:
    """Between these lie the steps as far as the bulk of this class decides it."""
    if not np.isfinite(limit):
        return 0.0, 0.0
    n = one.num_units
    # Of n units a share is slower than some y: where their exponents alone are large, no step ends.
    share = 0.5 ** np.arange(1, max(np.log2(n / _EXPONENT), 1))
    levels = np.concatenate([[limit], -np.log1p(-share)])
    exceeded = np.concatenate([[_ABOVE / n], np.minimum(_EXPONENT / (n * share), 1 - 1e-9)])
    ends = one.law.slowness(np.log(levels)) * one.law.step.high(exceeded)
    return float(ends[1:].max(initial=0)), float(ends[0])
