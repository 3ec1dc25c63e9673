"""From a few drawn steps of random clusters to how their mean steps are spread.

A cluster's mean step is a linear function of what is known of it (`lasting_predictors.py`), fitted
over the clusters of which steps were drawn, and what is left. The variance of what is left is that
of the residuals of the clusters' averages less the part of the noise of steps: the residuals are
shrunk until they have it (empirical Bayes), and given to the other clusters as well. Standard
errors: the same again with clusters drawn with replacement (bootstrap [textbook]).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.clusters.cluster_draws import lattice_scores
from service.model.clusters.sampled_spread import Sampled, quantiles_of
from service.model.laws.law import Floats

_RESAMPLES = 32
_CLUSTERS_PER_COEFFICIENT = 8
_BOOTSTRAP = 2072
"""Number of its random numbers in the generator's key; random_numbers.py ends at 2064."""
_TRIFLE = 1e-12
_NEARLY_NORMAL = 1e6


class Drawn(NamedTuple):
    """Random clusters, some of them with steps.

    average      (drawn,) over a few steps, without what follows from their `luck`
    noise        (drawn,) variance of that average within the cluster
    luck         (drawn,) what the steps' own randomness alone adds, of the same expectation in all
                 clusters: their mean is a part of the mean step
    predictors   (clusters, predictors) what is known of all clusters, those that have steps first;
                 `clusters` is a multiple of `drawn`
    """

    average: Floats
    noise: Floats
    luck: Floats
    predictors: Floats


class Window(NamedTuple):
    """What makes a window of a cluster's mean step.

    noise           (drawn,) variance of the window about it, as each drawn cluster shows it
    outside_ratio   as in Fleet
    held            the mean step from the one that was fitted
    error           of the mean of all clusters, beside what their scatter shows
    shape           of the gamma that the noise is, less its mean; infinite for a normal one
    """

    noise: Floats
    outside_ratio: float
    held: Callable[[Floats], Floats]
    error: float = 0.0
    shape: float = np.inf


def fitted(drawn: Drawn, window: Window, seed: int) -> Sampled:
    """Over random clusters."""
    number = len(drawn.average)
    design = _design(drawn)
    key = np.array([seed, _BOOTSTRAP], dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key))
    rows = [np.arange(number), *generator.integers(number, size=(_RESAMPLES, number))]
    scatter = _scatter(window.shape, lattice_scores(seed, design.shape[0] * number))
    scatter = scatter.reshape(*design.shape[:2], -1)
    results = [
        _statistics(
            window.held(cluster_means(drawn, design, of)),
            max(float(window.noise[of].mean()), 0.0) ** 0.5 * scatter[:, of],
            window.outside_ratio,
        )
        for of in rows
    ]
    found, scattered = results[0], np.std(results[1:], axis=0, ddof=1)
    error = np.hypot(scattered[:4], window.error)
    of_rate = window.error / (window.outside_ratio + float(found[3])) ** 2
    return Sampled(
        quantiles=found[:3],
        quantiles_se=error[:3],
        mean=float(found[3]),
        mean_se=float(error[3]),
        reciprocal_mean=float(found[4]),
        reciprocal_mean_se=float(np.hypot(scattered[4], of_rate)),
        reciprocal_sd=float(found[5]),
    )


def _scatter(shape: float, scores: Floats) -> Floats:
    """Of mean 0 and variance 1, from normal scores."""
    if shape > _NEARLY_NORMAL:
        return scores
    found: Floats = (special.gammaincinv(shape, special.ndtr(scores)) - shape) / shape**0.5
    return found


def _statistics(means: Floats, scatter: Floats, outside_ratio: float) -> Floats:
    """p10, p50, p90 and mean of clusters' means, mean and sd of 1 / (outside ratio + them)."""
    smeared = (means[..., np.newaxis] + scatter).ravel()
    smeared.sort()
    reciprocal = 1 / (outside_ratio + smeared)
    moments = means.mean(), reciprocal.mean(), reciprocal.std()
    return np.array([*quantiles_of(smeared), *moments])


def cluster_means(drawn: Drawn, design: Floats, of: NDArray[np.intp]) -> Floats:
    """(groups, drawn) mean steps; `design` (groups, drawn, columns), of these drawn clusters."""
    columns, average = design[:, of], drawn.average[of]
    coefficients, _, rank, _ = np.linalg.lstsq(columns[0], average, rcond=None)
    explained = columns @ coefficients
    residual = average - explained[0]
    squares = float(residual @ residual)
    spread = squares / (len(average) - int(rank))
    left = max(spread - float(drawn.noise[of].mean()), 0.0)
    # Coefficients that were estimated scatter the fit a little more than the truth.
    centre = float(explained[0].mean())
    width = float(np.square(explained[0] - centre).mean())
    surplus = (int(rank) - 1) / len(average) * spread
    kept = (max(width - surplus, 0.0) / max(width, _TRIFLE**2)) ** 0.5
    shrunk = (left * len(average) / max(squares, _TRIFLE**2)) ** 0.5
    found: Floats = explained - centre
    found *= kept
    found += shrunk * _by_rank(residual, explained)
    found += centre + float(drawn.luck[of].mean())
    return found


def _by_rank(residual: Floats, explained: Floats) -> Floats:
    """(groups, drawn) residuals of the first group for those of the same rank in the others."""
    order = explained.argsort(axis=1)
    found = np.empty_like(explained)
    np.put_along_axis(found, order, residual[order[:1]], axis=1)
    return found


def _design(drawn: Drawn) -> Floats:
    """(groups, drawn, columns), as many as there are clusters for."""
    number, predictors = len(drawn.average), drawn.predictors
    centre, width = predictors[:number].mean(axis=0), predictors[:number].std(axis=0)
    scaled = (predictors - centre) / np.where(width > _TRIFLE, width, np.inf)
    hard = scaled[:, :1]
    # Beyond what was seen a square would be a guess.
    bounded = np.clip(hard, hard[:number].min(), hard[:number].max())
    columns = np.concatenate([np.ones_like(hard), scaled, bounded**2], axis=1)
    most = 1 + number // _CLUSTERS_PER_COEFFICIENT
    return columns[:, :most].reshape(-1, number, min(most, columns.shape[1]))
