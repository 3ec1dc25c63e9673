"""Clusters by brute force: every lasting factor drawn, the steps' mean by quadrature over SciPy's
distributions. No code of the service in the mathematics, only in the fleets asked for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import gamma as gamma_function

from service.model.clusters.spread import Spread, spread_of
from service.model.distributions import FAMILIES, law_of
from service.model.fleet import Fleet
from service.model.laws.source import Source

Floats = NDArray[np.float64]

OUTSIDE_RATIO = 110 / 300
NUM_STEPS = 5_650_461.0
WINDOW_HOURS = 720.0
_NODES = 64


def source(family: str, cv: float, num_points: int = 1) -> Source:
    """The second parameter is the skew, for the family that has one."""
    shape = np.vstack([np.full(num_points, cv), np.full(num_points, 2.0)])
    return Source(law=law_of(FAMILIES.index(family)), shape=shape)


def fleet(
    num_gpus: tuple[float, ...] = (1024.0,), mean: tuple[float, ...] = (1.0,), **given: Any
) -> Fleet:
    """One point; whole numbers and sources by the names of the fleet's fields."""
    whole: dict[str, Any] = {
        name: np.full(1, given.pop(name, default), dtype=np.int64)
        for name, default in (
            ("gpus_per_node", 8),
            ("tensor_parallel_size", 1),
            ("num_removed", 0),
            ("num_backup", 0),
        )
    }
    return Fleet(
        num_gpus=np.array(num_gpus)[:, np.newaxis],
        mean=np.array(mean)[:, np.newaxis],
        outside_ratio=np.full(1, OUTSIDE_RATIO),
        autocorrelation=np.full(1, given.pop("autocorrelation", 0.0)),
        **whole,
        **given,
    )


def spread(of: Fleet, seed: int = 0, draws: int = 256, num_steps: float = NUM_STEPS) -> Spread:
    """Every point under the same seed."""
    number = of.num_points
    return spread_of(
        of,
        seed=np.full(number, seed),
        draws=np.full(number, draws),
        num_steps=np.full(number, num_steps),
        window_hours=np.full(number, WINDOW_HOURS),
    )


def joined(fleets: list[Fleet]) -> Fleet:
    """Points of one structure as one fleet."""
    first = fleets[0]
    values: dict[str, Any] = {}
    for name in ("num_gpus", "mean"):
        values[name] = np.concatenate([getattr(one, name) for one in fleets], axis=1)
    for name in (
        "gpus_per_node",
        "tensor_parallel_size",
        "outside_ratio",
        "num_removed",
        "num_backup",
        "autocorrelation",
    ):
        values[name] = np.concatenate([getattr(one, name) for one in fleets])
    for name in ("persistent", "transient", "node", "replica", "common"):
        one = getattr(first, name)
        if one is not None:
            shape = np.concatenate([getattr(each, name).shape for each in fleets], axis=1)
            values[name] = Source(law=one.law, shape=shape)
    return Fleet(**values)


def frozen(family: str, cv: float) -> Any:
    """SciPy's distribution of mean 1."""
    if family == "normal":
        return stats.norm(1, cv)
    if family == "lognormal":
        sd = np.sqrt(np.log1p(cv**2))
        return stats.lognorm(sd, scale=np.exp(-(sd**2) / 2))
    if family == "gamma":
        return stats.gamma(1 / cv**2, scale=cv**2)
    if family == "pareto":
        power = 1 + np.sqrt(1 + 1 / cv**2)
        return stats.pareto(power, scale=(power - 1) / power)
    assert family == "weibull"

    def excess(log_k: float) -> float:
        k = np.exp(log_k)
        ratio = gamma_function(1 + 2 / k) / gamma_function(1 + 1 / k) ** 2
        return float(ratio - 1 - cv**2)

    k = np.exp(brentq(excess, -1, 6))
    return stats.weibull_min(k, scale=1 / gamma_function(1 + 1 / k))


def cluster_means(
    persistent: Floats, transient: Any, slower: Any = None, nodes: int = _NODES
) -> Floats:
    """(clusters,) mean slowest step of clusters with these lasting factors, (clusters, gpus).

    `slower`: (probability, slowdown) of spikes.
    """
    roots, weights = np.polynomial.legendre.leggauss(nodes)
    u, w = (roots + 1) / 2, weights / 2
    found = np.empty(len(persistent))
    for number, factors in enumerate(persistent):
        top = factors.max()
        high = top * transient.isf(1e-11) * (1 if slower is None else slower[1])
        low = top * max(transient.ppf(1e-6), 1e-3)
        # Where the slowest of all hardly ever lies below.
        scan = np.geomspace(low, high, 60)
        below = -_log_cdf(scan, factors, transient, slower)
        low = scan[max(int(np.searchsorted(-below, -25.0)) - 1, 0)]
        log_range = np.log(high / low)
        t = low * np.exp(u * log_range)
        share = np.exp(_log_cdf(t, factors, transient, slower))
        found[number] = high - log_range * (w * t) @ share
    return found


def _log_cdf(t: Floats, factors: Floats, transient: Any, slower: Any) -> Floats:
    above = transient.sf(t[:, np.newaxis] / factors)
    if slower is not None:
        probability, slowdown = slower
        spiked = transient.sf(t[:, np.newaxis] / (factors * slowdown))
        above = (1 - probability) * above + probability * spiked
    total: Floats = np.log1p(-np.minimum(above, 1 - 1e-16)).sum(axis=1)
    return total


def sd_and_error(values: Floats) -> tuple[float, float]:
    """The standard deviation and its relative standard error, tails as they are."""
    sd = float(values.std())
    kurtosis = float(((values - values.mean()) ** 4).mean()) / sd**4
    return sd, float(np.sqrt((kurtosis - 1) / 4 / len(values)))
