"""The mean of a GPU's factor over several steps: what a barrier every so many steps waits for.

A mean of independent factors is narrower by the root of their number. For normal and gamma
families it is of the family again; for others its distribution is worked out: by doubling
(`doubling.py`), with spikes or for a table of quantiles by a transform (`bumpy_means.py`).
Source: design page "The model", section 6.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Spikes
from service.model.laws.bumpy_means import Atoms, is_light, score_curve
from service.model.laws.doubling import mean_of_steps
from service.model.laws.empirical import Table
from service.model.laws.exponential import Exponential
from service.model.laws.gamma import Gamma
from service.model.laws.law import Floats, Law
from service.model.laws.lognormal import LogNormal
from service.model.laws.mean_law import MeanLaw
from service.model.laws.normal import Normal
from service.model.laws.piecewise import Pieces
from service.model.laws.shifted_gamma import ShiftedGamma
from service.model.laws.source import Source
from service.model.laws.spiked_means import (
    Steps,
    has_few_numbers,
    is_countable,
    spiked_score_curve,
)
from service.model.laws.step_atoms import atoms_of_step

_SKEW_OF_EXPONENTIAL = 2.0
_CLOSED = (Normal, Gamma, ShiftedGamma, Exponential)
# The density of the others begins with a corner; the mean of many steps has none that matters.
_WITHOUT_CORNER = (Normal, LogNormal)
_MANY_STEPS = 16
# Gap between bumps in standard deviations of the sum of steps; and the cv of factors that stay
# above 0.
_WIDE_GAP, _NARROW = 100.0, 0.1


class Averages(NamedTuple):
    """The mean factor of so many steps, as a factor of mean 1 times its expectation.

    source  of mean 1; None where nothing varies
    spikes  what is left of them: all where a mean is of one step, else None
    mean    (points,) the expectation, 1 + probability (slowdown - 1) of spikes that are not left:
            it belongs into `Fleet.mean`
    """

    source: Source | None
    spikes: Spikes | None
    mean: Floats


def averaged(
    source: Source | None,
    spikes: Spikes | None,
    steps: NDArray[np.int64],
    autocorrelation: Floats,
) -> Averages:
    """Of points of one family, independent steps or normal ones with this autocorrelation.

    `steps` (points,) at least 1; `autocorrelation` (points,) of the factors from one step to the
    next. Points of one `average_keys` only. ValueError for autocorrelated steps of another family
    or with spikes, and for very many spikes beside a heavy tail (`spiked_means.MOST_NUMBERS`).
    """
    ones = np.ones(len(steps))
    if bool((steps == 1).all()):
        return Averages(source, spikes, ones)
    is_plain = spikes is None and source is not None
    if autocorrelation.any() and not (is_plain and source is not None and source.law is Normal):
        raise ValueError(
            "autocorrelation: the mean of autocorrelated steps is known for normal factors without "
            "spikes only"
        )
    if source is None and spikes is None:
        return Averages(None, None, ones)
    if is_plain and source is not None and source.law in _CLOSED:
        return Averages(_closed(source, steps, autocorrelation), None, ones)
    key = average_keys(source, spikes, steps)
    if (key != key[0]).any():
        raise ValueError("steps: these points do not share a distribution of their mean")
    found = _law_of_mean(_one_mean(source, spikes, int(steps[0])))
    if spikes is not None:
        ones = ones + spikes.probability * (spikes.slowdown - 1)
    if found is None:
        return Averages(None, None, ones)
    law, cv = found
    shape = np.stack([np.full(len(steps), cv), np.zeros(len(steps))])
    return Averages(Source(law=law, shape=shape), None, ones)


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
    # A single step is the law itself, whatever its parameters.
    key[:, steps == 1] = 0
    _, found = np.unique(key, axis=1, return_inverse=True)
    return found.ravel().astype(np.int64)


def are_known(
    source: Source | None, spikes: Spikes | None, steps: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """(points,) where `averaged` has an answer for independent steps, whatever the key.

    It has none for very many spikes beside a heavy tail.
    """
    keys = average_keys(source, spikes, steps)
    _, first, point = np.unique(keys, return_index=True, return_inverse=True)
    found = []
    for row in first.tolist():
        here = slice(row, row + 1)
        of_source = None if source is None else source.part(here)
        of_spikes = None if spikes is None else spikes.part(here)
        found.append(_is_known(_one_mean(of_source, of_spikes, int(steps[row]))))
    return np.array(found, dtype=np.bool_)[point]


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


class _OneMean(NamedTuple):
    law: Law | None
    parameters: tuple[float, ...]
    probability: float
    slowdown: float
    steps: int


def _one_mean(source: Source | None, spikes: Spikes | None, steps: int) -> _OneMean:
    """Of the first point."""
    law, parameters, probability, slowdown = None, (), 0.0, 1.0
    if source is not None:
        law, parameters = source.law, tuple(np.nan_to_num(source.shape[:, 0]).tolist())
    if spikes is not None:
        probability, slowdown = float(spikes.probability[0]), float(spikes.slowdown[0])
    return _OneMean(law, parameters, probability, slowdown, steps)


@lru_cache(maxsize=64)
def _law_of_mean(one: _OneMean) -> tuple[MeanLaw, float] | None:
    """The law and its cv; None where nothing varies."""
    shape = np.array(one.parameters)[:, np.newaxis]
    if one.law is not None and one.probability == 0 and not isinstance(one.law, Table):
        power = one.law.tail_power(shape)
        curve = mean_of_steps(one.law, shape, one.steps)
        law = MeanLaw(curve.score_of, None if power is None else float(power[0]))
        return law, one.parameters[0] / one.steps**0.5
    source = None if one.law is None else Source(law=one.law, shape=shape)
    atoms = atoms_of_step(source, one.probability, one.slowdown)
    if atoms.sd == 0:
        return None
    return MeanLaw(*_curve_and_power(one, atoms, shape), has_bumps=True), atoms.sd / one.steps**0.5


def _curve_and_power(one: _OneMean, atoms: Atoms, shape: Floats) -> tuple[Pieces, float | None]:
    """Of steps with spikes, or observed ones."""
    if one.law is None or _is_by_transform(one, atoms):
        return score_curve(atoms, one.steps), None
    power = one.law.tail_power(shape)
    given = Steps(one.law, shape, one.probability, one.slowdown, one.steps)
    return spiked_score_curve(given), None if power is None else float(power[0])


def _is_by_transform(one: _OneMean, atoms: Atoms) -> bool:
    if atoms.is_bounded:
        return True
    # Rare spikes far from a narrow factor: a grid over all would be too coarse for it.
    width = one.parameters[0] * one.steps**0.5
    has_gaps = one.slowdown - 1 > _WIDE_GAP * width and one.parameters[0] < _NARROW
    if has_gaps and has_few_numbers(one.steps, one.probability):
        return False
    begins_smoothly = one.law in _WITHOUT_CORNER or one.steps >= _MANY_STEPS
    return begins_smoothly and is_light(atoms, one.steps)


@lru_cache(maxsize=64)
def _is_known(one: _OneMean) -> bool:
    if one.law is None or one.probability == 0 or one.steps == 1:
        return True
    shape = np.array(one.parameters)[:, np.newaxis]
    atoms = atoms_of_step(Source(law=one.law, shape=shape), one.probability, one.slowdown)
    given = Steps(one.law, shape, one.probability, one.slowdown, one.steps)
    return _is_by_transform(one, atoms) or is_countable(given)
