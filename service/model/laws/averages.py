"""The mean of a GPU's factor over several steps: what a barrier every so many steps waits for.

A mean of independent factors is narrower by the root of their number. For normal and gamma
families it is of the family again; for others its distribution is worked out (`mean_laws.py`).
Source: design page "The model", section 6.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Source, Spikes
from service.model.laws.doubling import mean_of_steps
from service.model.laws.exponential import Exponential
from service.model.laws.gamma import Gamma
from service.model.laws.law import Floats, Law
from service.model.laws.mean_law import MeanLaw
from service.model.laws.normal import Normal
from service.model.laws.shifted_gamma import ShiftedGamma

_SKEW_OF_EXPONENTIAL = 2.0
_CLOSED = (Normal, Gamma, ShiftedGamma, Exponential)


class Averages(NamedTuple):
    """The mean factor of so many steps, as a factor of mean 1 times its expectation.

    source  of mean 1; None where nothing varies
    mean    (points,) the expectation, 1 + probability (slowdown - 1): it belongs into `Fleet.mean`
    """

    source: Source | None
    mean: Floats


def averaged(
    source: Source | None,
    spikes: Spikes | None,
    steps: NDArray[np.int64],
    autocorrelation: Floats,
) -> Averages:
    """Of points of one family, independent steps or normal ones with this autocorrelation.

    `steps` (points,) at least 1; `autocorrelation` (points,) of the factors from one step to the
    next. Points of one `average_keys` only. ValueError for autocorrelated steps of another family.
    """
    expected = np.ones(len(steps))
    if spikes is not None:
        expected += spikes.probability * (spikes.slowdown - 1)
    if autocorrelation.any() and (source is None or source.law is not Normal or spikes is not None):
        raise ValueError(
            "autocorrelation: the mean of autocorrelated steps is known for normal factors without "
            "spikes only"
        )
    if spikes is None and (source is None or bool((steps == 1).all())):
        return Averages(source, expected)
    if spikes is None and source is not None and source.law in _CLOSED:
        return Averages(_closed(source, steps, autocorrelation), expected)
    key = average_keys(source, spikes, steps)
    if (key != key[0]).any():
        raise ValueError("steps: these points do not share a distribution of their mean")
    law = _law_of_mean(source.law, tuple(source.shape[:, 0].tolist()), int(steps[0]))
    cv = source.shape[0] / np.sqrt(steps)
    return Averages(Source(law=law, shape=np.vstack([cv, source.shape[1:]])), expected)


def average_keys(
    source: Source | None, spikes: Spikes | None, steps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(points,) numbers 0, 1 ...: points with the same one may share a call of `averaged`.

    Families with a closed form all do; of others those with the same steps and parameters.
    """
    if spikes is None and (source is None or source.law in _CLOSED):
        return np.zeros(len(steps), dtype=np.int64)
    rows = [steps.astype(np.float64)]
    if source is not None:
        rows += list(source.shape)
    if spikes is not None:
        rows += [spikes.probability, spikes.slowdown]
    key = np.nan_to_num(np.array(rows))
    if spikes is None:
        # A single step is the law itself, whatever its parameters.
        key[:, steps == 1] = 0
    _, found = np.unique(key, axis=1, return_inverse=True)
    return found.ravel().astype(np.int64)


def variance_ratio(steps: NDArray[np.int64], autocorrelation: Floats) -> Floats:
    """(points,) variance of the mean of AR(1) steps over that of one.

    [(1 + f) / (1 - f) - 2 f (1 - f^H) / (H (1 - f)^2)] / H; to 1e-9 up to f = 0.999.
    """
    rest = 1 - autocorrelation
    whole = (1 + autocorrelation) / rest
    start = 2 * autocorrelation * (1 - autocorrelation**steps) / (steps * rest * rest)
    ratio: Floats = (whole - start) / steps
    return ratio


def _closed(source: Source, steps: NDArray[np.int64], autocorrelation: Floats) -> Source:
    cv = source.shape[0]
    root = np.sqrt(steps)
    if source.law is Normal:
        narrower = cv * np.sqrt(variance_ratio(steps, autocorrelation))
        return Source(law=Normal, shape=np.vstack([narrower, source.shape[1:]]))
    if source.law is Gamma:
        return Source(law=Gamma, shape=np.vstack([cv / root, source.shape[1:]]))
    skew = source.shape[1] if source.law is ShiftedGamma else _SKEW_OF_EXPONENTIAL
    return Source(law=ShiftedGamma, shape=np.vstack([cv / root, skew / root]))


@lru_cache(maxsize=64)
def _law_of_mean(law: Law, parameters: tuple[float, ...], steps: int) -> MeanLaw:
    shape = np.array(parameters)[:, np.newaxis]
    power = law.tail_power(shape)
    curve = mean_of_steps(law, shape, steps)
    return MeanLaw(curve.score_of, None if power is None else float(power[0]))
