"""The slowest of a fleet by brute force, from scipy.stats: no code of the service in it."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

Floats = NDArray[np.float64]
# Each GPU kind: how many, and the mean of its factor (1 / speed).
Fleet = Sequence[tuple[float, float]]

PANELS = 160
NODES_PER_PANEL = 20
OUTSIDE = 1e-17


LARGEST_CVS = {"normal": 0.3, "pareto": 3.0}
"""1 for the others."""


class Factor:
    """A factor of mean 1 with the survival function taken as such in the upper tail."""

    def __init__(self, kind: str, cv: float, skew: float = 0.0) -> None:
        self.kind = kind
        self.law: Any = _LAWS[kind](cv, skew)

    def log_cdf(self, x: Floats) -> Floats:
        above, below = self.law.sf(x), self.law.cdf(x)
        with np.errstate(divide="ignore"):
            found: Floats = np.where(above < 0.5, np.log1p(-above), np.log(below))
        return found

    def low(self, num_gpus: float) -> float:
        p = np.exp(np.log(OUTSIDE) / num_gpus)
        low = self.law.ppf(p) if p < 0.5 else self.law.isf(-np.expm1(np.log(OUTSIDE) / num_gpus))
        return float(low)

    def high(self, num_gpus: float) -> float:
        # Heavier tails need more of the tail than of its probability.
        power = 1.9 if self.kind == "pareto" else 1.3
        return float(self.law.isf(OUTSIDE**power / num_gpus))


@lru_cache(maxsize=1024)
def weibull_exponent(cv: float) -> float:
    """The k of a Weibull factor, from Gamma's infinite product: no difference of logarithms."""
    n = np.arange(1.0, 20_001)

    def excess(log_u: float) -> float:
        u = np.exp(log_u)
        terms = np.log1p(u * u / (n * (n + 2 * u)))
        return float(terms.sum() + u * u / (n[-1] + 0.5 + u) - np.log1p(cv * cv))

    return float(np.exp(-optimize.brentq(excess, np.log(cv / 2), np.log(2 * cv), xtol=1e-15)))


def _lognormal(cv: float, _: float) -> Any:
    sd = np.sqrt(np.log1p(cv**2))
    return stats.lognorm(sd, scale=np.exp(-(sd**2) / 2))


def _weibull(cv: float, _: float) -> Any:
    k = weibull_exponent(cv)
    return stats.weibull_min(k, scale=1 / special.gamma(1 + 1 / k))


def _pareto(cv: float, _: float) -> Any:
    a = 1 + np.sqrt(1 + 1 / cv**2)
    return stats.pareto(a, scale=(a - 1) / a)


_LAWS: dict[str, Callable[[float, float], Any]] = {
    "normal": lambda cv, _: stats.norm(1, cv),
    "lognormal": _lognormal,
    "gamma": lambda cv, _: stats.gamma(1 / cv**2, scale=cv**2),
    "shifted_gamma": lambda cv, skew: stats.gamma(
        4 / skew**2, loc=1 - 2 * cv / skew, scale=cv * skew / 2
    ),
    "exponential": lambda cv, _: stats.expon(1 - cv, cv),
    "weibull": _weibull,
    "pareto": _pareto,
}


def log_cdf_of_slowest(factor: Factor, fleet: Fleet, x: Floats) -> Floats:
    total = np.zeros_like(x)
    for num_gpus, mean in fleet:
        total += num_gpus * factor.log_cdf(x / mean)
    return total


def expected_slowest(kind: str, cv: float, fleet: Fleet, skew: float = 0.0) -> float:
    """lo + the integral of 1 - P(slowest <= x), 3 200 Gauss-Legendre nodes.

    And 1 600 more towards lo for the families that start at a smallest value like a root.
    """
    factor = Factor(kind, cv, skew)
    low = max(mean * factor.low(num_gpus) for num_gpus, mean in fleet)
    high = max(mean * factor.high(num_gpus) for num_gpus, mean in fleet)
    roots, weights = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    logarithmic = kind != "normal"
    ends = (
        np.geomspace(low, high, PANELS + 1) if logarithmic else np.linspace(low, high, PANELS + 1)
    )
    if kind not in {"normal", "lognormal", "gamma"}:
        near = low + (high - low) * np.geomspace(1e-15, 1, PANELS // 2 + 1)
        ends = np.union1d(ends, near[near < high])
    half = np.diff(ends)[:, np.newaxis] / 2
    x = (ends[:-1, np.newaxis] + half * (roots + 1)).ravel()
    above = -np.expm1(log_cdf_of_slowest(factor, fleet, x))
    return float(low + np.sum((half * weights).ravel() * above))


def variance_of_slowest(kind: str, cv: float, fleet: Fleet, skew: float = 0.0) -> float:
    """The variance of the distance to lo, by as many nodes as a tail of squares needs."""
    factor = Factor(kind, cv, skew)
    low = max(mean * factor.low(num_gpus) for num_gpus, mean in fleet)
    # Of a power a > 2 the square's tail falls with a - 2: to where the rest is 1e-9 of the whole.
    power = 1e-17 if kind != "pareto" else 10.0 ** (-9 / (1 - 2 / (1 + np.sqrt(1 + cv**-2))))
    high = max(mean * float(factor.law.isf(power / num_gpus)) for num_gpus, mean in fleet)
    roots, weights = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    ends = low + (high - low) * np.append(0, np.geomspace(1e-15, 1, 3 * PANELS))
    half = np.diff(ends)[:, np.newaxis] / 2
    x = (ends[:-1, np.newaxis] + half * (roots + 1)).ravel()
    above = -np.expm1(log_cdf_of_slowest(factor, fleet, x)) * (half * weights).ravel()
    return float(np.sum(2 * (x - low) * above) - np.sum(above) ** 2)


def quantile_of_slowest(kind: str, cv: float, fleet: Fleet, p: float, skew: float = 0.0) -> float:
    """The x with P(slowest <= x) = p, by bisection and secants of Brent."""
    factor = Factor(kind, cv, skew)

    def excess(x: float) -> float:
        return float(log_cdf_of_slowest(factor, fleet, np.array([x]))[0] - np.log(p))

    low = max(mean * factor.low(num_gpus) for num_gpus, mean in fleet)
    high = max(mean * factor.high(num_gpus) for num_gpus, mean in fleet)
    return float(optimize.brentq(excess, low, high, xtol=1e-13 * abs(low), rtol=1e-13))


def random_fleets(
    kind: str, num_fleets: int, num_kinds: int, *, comparable: bool, seed: int, skew: float = 0.0
) -> list[tuple[float, list[tuple[float, float]]]]:
    """(cv, fleet) of every size and spread; `comparable` lets the kinds' maxima meet.

    Those are the hard ones: which kind is the slowest changes within the integral.
    """
    rng = np.random.default_rng(seed)
    largest_cv = min(skew / 2, 1) if kind == "shifted_gamma" else LARGEST_CVS.get(kind, 1.0)
    fleets = []
    for _ in range(num_fleets):
        cv = float(np.exp(rng.uniform(np.log(0.002), np.log(largest_cv))))
        sizes = np.exp(rng.uniform(0, np.log(1e7), num_kinds)).round()
        means = np.concatenate([[1.0], 1 / rng.uniform(0.3, 1, num_kinds - 1)])
        if comparable:
            law = Factor(kind, cv, skew).law
            medians = law.isf(np.log(2) / np.maximum(sizes, 2))
            shift = np.exp(rng.normal(0, cv * rng.choice([0.1, 0.3, 1, 3]), num_kinds))
            means = np.maximum(medians[0] / medians * shift, 1)
            means[0] = 1
        fleets.append((cv, list(zip(sizes.tolist(), means.tolist(), strict=True))))
    return fleets
