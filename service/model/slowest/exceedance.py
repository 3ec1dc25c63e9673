"""How many GPUs exceed a time: the step ends without its so many last ones.

With b GPUs left behind the step ends by t when at most b exceed t. The number that does is a sum
of independent binomials, one for each class: P(more than b) for one class by the incomplete beta
function, for several by the probabilities of the smaller classes up to b.
Source: order statistics through the beta distribution [textbook]; model page, section 6.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.laws.law import Floats

NEGLIGIBLE = 1e-18
"""Probability below which a number of GPUs is left out."""


def exceeded_by_more(survival: Floats, num_gpus: Floats, allowed: NDArray[np.int64]) -> Floats:
    """P(more than `allowed` GPUs exceed), (..., points), to 1e-13 or so.

    survival  (classes, ..., points) of one GPU of each class
    num_gpus  (classes, points) whole numbers
    allowed   (points,)
    """
    main = int(num_gpus.sum(axis=1).argmax())
    others = np.delete(num_gpus, main, axis=0)
    most = int(np.minimum(allowed, others.sum(axis=0)).max())
    exceeding = _exceeding(np.delete(survival, main, axis=0), others, most)
    found = np.maximum(1 - exceeding.sum(axis=0), 0)
    of_main = np.broadcast_to(num_gpus[main], found.shape)
    still_allowed = np.broadcast_to(allowed, found.shape)
    for number, probability in enumerate(exceeding):
        likely = probability > NEGLIGIBLE
        more = _binomial_above(
            still_allowed[likely] - number, of_main[likely], survival[main][likely]
        )
        found[likely] += probability[likely] * more
    at_most_one: Floats = np.minimum(found, 1)
    return at_most_one


def _exceeding(survival: Floats, num_gpus: Floats, most: int) -> Floats:
    """[j]: the probability that j GPUs of these classes exceed, j up to `most`."""
    found = np.zeros((most + 1, *survival.shape[1:]))
    found[0] = 1
    length = 2 * (most + 1)
    for kind, of_class in enumerate(num_gpus):
        probability = _binomial(most, of_class, survival[kind])
        if kind == 0:
            found = probability
        elif most < 64:
            found = sum_of_shifted(found, probability)
        else:
            both = np.fft.rfft(found, length, axis=0) * np.fft.rfft(probability, length, axis=0)
            found = np.maximum(np.fft.irfft(both, length, axis=0)[: most + 1], 0)
    return found


def sum_of_shifted(first: Floats, second: Floats) -> Floats:
    """The convolution of two sets of probabilities, as long as they are."""
    found = np.zeros_like(first)
    for number, probability in enumerate(first):
        found[number:] += probability * second[: len(first) - number]
    return found


def _binomial(most: int, num_gpus: Floats, survival: Floats) -> Floats:
    """[j]: P(j of `num_gpus` exceed), (most + 1, ..., points)."""
    number = np.arange(most + 1.0).reshape(-1, *(1,) * survival.ndim)
    rest = num_gpus - number
    ways = -special.betaln(np.maximum(rest, 0) + 1, number + 1) - np.log1p(num_gpus)
    logs = ways + special.xlogy(number, survival) + special.xlog1py(np.maximum(rest, 0), -survival)
    return np.where(rest >= 0, np.exp(logs), 0)


def _binomial_above(allowed: NDArray[np.int64], num_gpus: Floats, survival: Floats) -> Floats:
    """P(more than `allowed` of `num_gpus` exceed)."""
    possible = (allowed >= 0) & (allowed < num_gpus)
    number = np.where(possible, allowed, 0)
    rest = np.where(possible, num_gpus - number, 1)
    above = special.betainc(number + 1.0, rest, survival)
    return np.where(possible, above, np.where(allowed < 0, 1.0, 0.0))
