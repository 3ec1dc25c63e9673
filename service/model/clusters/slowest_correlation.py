"""How far the slowest of N GPUs remembers the step before, when each GPU's score is an AR(1).

Cov(M, M') of the maxima of N pairs of normal scores with correlation r is Hoeffding's integral of
F(x, y)^N - F(x)^N F(y)^N, F(x, y) the bivariate normal distribution function (by Owen's T). The
variance of a mean over many steps is inflated by 1 + 2 Σ_k corr(φ^k).
"""

from functools import lru_cache

import numpy as np
from scipy import special

from service.model.laws.law import Floats
from service.model.slowest.nodes import chebyshev, legendre

_LARGEST_LOG = float(np.log(1e7))
# Correlation of the maxima as a polynomial in log N and in sqrt(1 - r), from this one on.
_DEGREE_OF_LOG, _DEGREE_OF_ROOT = 12, 16
_SMALLEST_ROOT = 0.02
_NODES = 64
_OUTSIDE = 1e-13
_CROWDING = 6.0
# Lags that are added one by one; the others are integrated over.
_SINGLE_LAGS = 40
_LAG_NODES = 48
_FORGOTTEN = 1e-9


def inflation(num_gpus: Floats, autocorrelation: Floats) -> Floats:
    """(points,) of the variance of a mean over many steps; autocorrelation from 0 to below 1."""
    found = np.ones(len(num_gpus))
    for point in np.flatnonzero(autocorrelation > 0).tolist():
        lags, weights = _lags(float(autocorrelation[point]))
        r = autocorrelation[point] ** lags
        found[point] += 2 * weights @ slowest_correlation(float(num_gpus[point]), r)
    return found


def slowest_correlation(num_gpus: float, r: Floats) -> Floats:
    """Of the maxima of `num_gpus` pairs of normal scores with correlation r, 0 to 1."""
    root = np.sqrt(1 - r)
    place = 2 * (np.maximum(root, _SMALLEST_ROOT) - _SMALLEST_ROOT) / (1 - _SMALLEST_ROOT) - 1
    log_size = 2 * np.log(np.clip(num_gpus, 1, 1e7)) / _LARGEST_LOG - 1
    of_size = np.polynomial.chebyshev.chebval(log_size, _coefficients())
    lost = np.polynomial.chebyshev.chebval(place, of_size)
    # 1 - correlation vanishes with the root, and is kept as its multiple.
    found: Floats = 1 - lost * root
    return found


def _lags(phi: float) -> tuple[Floats, Floats]:
    """Lags k and weights of a sum over all k from 1 on; the far ones by an integral over log k."""
    last = max(np.log(_FORGOTTEN) / np.log(phi), 1.0)
    single = np.arange(1, min(_SINGLE_LAGS, int(np.ceil(last))) + 1.0)
    if last <= _SINGLE_LAGS:
        return single, np.ones_like(single)
    # The sum over k > K is the integral from K + 1/2, but for a second derivative over 24.
    rule = legendre(_LAG_NODES)
    log_range = np.log(last / (_SINGLE_LAGS + 0.5))
    far = (_SINGLE_LAGS + 0.5) * np.exp(rule.nodes * log_range)
    lags = np.concatenate([single, far])
    return lags, np.concatenate([np.ones_like(single), rule.weights * far * log_range])


@lru_cache(maxsize=1)
def _coefficients() -> Floats:
    """(sizes, roots) Chebyshev coefficients of (1 - correlation) / sqrt(1 - r)."""
    by_size, by_root = chebyshev(_DEGREE_OF_LOG), chebyshev(_DEGREE_OF_ROOT)
    sizes = np.exp((by_size.points + 1) / 2 * _LARGEST_LOG)
    roots = _SMALLEST_ROOT + (by_root.points + 1) / 2 * (1 - _SMALLEST_ROOT)
    lost = np.array([[(1 - _correlation(n, 1 - s * s)) / s for s in roots] for n in sizes])
    coefficients: Floats = by_size.to_coefficients @ lost @ by_root.to_coefficients.T
    return coefficients


def _correlation(num_gpus: float, r: float) -> float:
    low = float(special.ndtri_exp(np.log(_OUTSIDE) / num_gpus))
    high = -float(special.ndtri(_OUTSIDE / num_gpus))
    rule = legendre(_NODES)
    middle = low + (high - low) * rule.nodes
    # Pairs by their mean and their distance: at r near 1 all happens where it is small.
    crowded = np.expm1(_CROWDING * rule.nodes) / np.expm1(_CROWDING)
    distance = (high - low) * crowded
    slope = _CROWDING * np.exp(_CROWDING * rule.nodes) / np.expm1(_CROWDING)
    x = middle[:, np.newaxis] + distance / 2
    y = middle[:, np.newaxis] - distance / 2
    both = np.exp(num_gpus * np.log1p(-_either_above(x, y, r)))
    both -= np.exp(num_gpus * (special.log_ndtr(x) + special.log_ndtr(y)))
    weight = rule.weights * (high - low)
    covariance = 2 * weight @ both @ (weight * slope)
    alone = np.exp(num_gpus * special.log_ndtr(middle))
    above = 1 - alone
    first = weight @ above
    variance = weight @ (2 * (middle - low) * above) - first * first
    return float(covariance / variance)


def _either_above(x: Floats, y: Floats, r: float) -> Floats:
    """P(X > x or Y > y) of bivariate normal scores."""
    above_x, above_y = special.ndtr(-x), special.ndtr(-y)
    width = np.sqrt((1 - r) * (1 + r))
    opposite = np.where((x > 0) == (y > 0), 0.0, 0.5)
    together = (above_x + above_y) / 2 - opposite
    together -= special.owens_t(x, (y / x - r) / width) + special.owens_t(y, (x / y - r) / width)
    return np.minimum(above_x + above_y - together, 1 - 2.0**-53)
