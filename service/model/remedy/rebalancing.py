"""Work shared out by speed: every GPU takes equally long, and nobody waits for slow ones.

With speeds v_i = speed of its group / (persistent factor x node factor) a GPU gets the share
v_i / sum(v) of the work, so that all compute for compute_ms x N / sum(v): the ratio to the nominal
compute is 1 / mean(v). For slow groups alone that is exact. Drawn speeds enter by the expectation
over clusters to second order in 1/N,

    E[1/mean(v)] = (1 + Var(mean(v)) / mu^2) / mu,    mu = E[mean(v)],

from the first two moments of 1/X, X each law's factor. Slow groups fall on random GPUs and a node's
factor is shared by its GPUs. What is left out is of the order of the relative variance squared, and
mean(v) differs between clusters by its own deviation only: that spread is not reported.
"""

import numpy as np

from service.model.active import is_active, num_removed
from service.model.columns import COUNT, SPEED, Columns, Floats
from service.model.laws.source import Source
from service.model.sources import source_of
from service.model.times import num_used

MAX_RELATIVE_VARIANCE = 0.01
"""Of mean(v): above, the second order is no longer within some 3e-4."""
# The trapezoidal rule over the normal score, which converges geometrically for smooth laws.
SCORES = np.linspace(-9.0, 9.0, 4001)
WEIGHTS = np.exp(-(SCORES**2) / 2) / np.exp(-(SCORES**2) / 2).sum()


class NotRebalancedError(ValueError):
    """Why the work of a scenario cannot be shared out by speed."""


def rebalanced_ratio(columns: Columns) -> float:
    """Compute time of every GPU over the nominal one, of the one point in `columns`.

    Raises `NotRebalancedError` where the expectation has no second order to trust.
    """
    drawn = [source for source in ("persistent", "node") if is_active(columns, source)[0]]
    if not drawn:
        return 1.0 / _mean_speed_of_groups(columns)
    if num_removed(columns)[0]:
        raise NotRebalancedError(
            "spares or evicted GPUs together with persistent or node variability: the speeds of "
            "the GPUs that are left have no simple mean"
        )
    return _drawn_ratio(columns)


def _mean_speed_of_groups(columns: Columns) -> float:
    """Of the GPUs that take part: the slowest are evicted or stand by."""
    counts, speeds = _groups(columns)
    order = np.argsort(-speeds, kind="stable")
    used = num_used(columns)[0]
    taken = np.diff(np.minimum(np.cumsum(counts[order]), used), prepend=0.0)
    return float(taken @ speeds[order] / used)


def _groups(columns: Columns) -> tuple[Floats, Floats]:
    """(groups,) GPUs and their speeds, the nominal ones first."""
    counts = np.concatenate([columns.num_nominal, columns[COUNT][0]]).astype(np.float64)
    return counts, np.concatenate([[1.0], columns[SPEED][0]])


def _drawn_ratio(columns: Columns) -> float:
    counts, speeds = _groups(columns)
    num_gpus = counts.sum()
    total, squares = counts @ speeds, counts @ speeds**2
    gpu, gpu_square = _moments(source_of(columns, "persistent"))
    node, node_square = _moments(source_of(columns, "node"))
    mean = total * gpu * node / num_gpus
    # Of one GPU; and of two that share a node, whose groups are drawn without replacement.
    variance = squares * (gpu_square * node_square - (gpu * node) ** 2)
    if num_gpus > 1:
        product = (total**2 - squares) / (num_gpus * (num_gpus - 1))
        pairs = _pairs_in_nodes(num_gpus, float(columns["gpus_per_node"][0]))
        variance += pairs * product * gpu**2 * (node_square - node**2)
    relative = variance / (num_gpus * mean) ** 2
    if not relative <= MAX_RELATIVE_VARIANCE:
        raise NotRebalancedError(
            "the speeds of so few GPUs, or of this distribution, differ too much from cluster to "
            f"cluster: their mean has a relative variance of {relative:.2g}, at most "
            f"{MAX_RELATIVE_VARIANCE} is computed"
        )
    return float((1 + relative) / mean)


def _pairs_in_nodes(num_gpus: float, per_node: float) -> float:
    """Ordered pairs of GPUs that share a node; the last node may be smaller."""
    whole, rest = divmod(num_gpus, per_node)
    return whole * per_node * (per_node - 1) + rest * (rest - 1)


def _moments(source: Source | None) -> tuple[float, float]:
    """E[1/X] and E[1/X^2] of a source's factor, 1 where there is none."""
    if source is None:
        return 1.0, 1.0
    factors: Floats = source.law.at_score(SCORES[:, np.newaxis], source.shape[:, :1])[:, 0]
    if factors[0] <= 0:
        raise NotRebalancedError(
            "the distribution has GPUs of no time at all, whose speed is infinite: use lognormal"
        )
    return float(WEIGHTS @ (1 / factors)), float(WEIGHTS @ (1 / factors**2))
