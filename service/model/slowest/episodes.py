"""Episodes: states of the fleet that last for hours, by how many GPUs of each class are in one.

The number of GPUs of a class in an episode is binomial. Small ones are listed with all values that
matter; large ones by the Gauss rule for the binomial weight (Krawtchouk polynomials), whose values
lie between the integers. States of several classes multiply.
Source: M/G/infinity occupancy, `stragglers.md` 2.6; Golub and Welsch 1969 for the rule [textbook].
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from service.model.fleet import Episodes
from service.model.laws.law import Floats

MAX_STATES = 4096
"""Of one point; the product over classes."""
_GAUSS_NODES = 16
_LISTED = 40
_LEFT_OUT = 1e-15


class States(NamedTuple):
    """num_gpus (states, 2 classes, points): healthy ones of each class, then those in an episode.

    weight (states, points) sums up to 1 for every point.
    """

    num_gpus: Floats
    weight: Floats


def num_states(num_gpus: Floats, occupancy: Floats) -> Floats:
    """(points,) how many states `states_of` would form; num_gpus (classes, points)."""
    low, high = _range(num_gpus, occupancy)
    listed = high - low + 1
    of_class = np.where(listed <= _LISTED, listed, _GAUSS_NODES)
    found: Floats = of_class.prod(axis=0)
    return found


def states_of(num_gpus: Floats, episodes: Episodes) -> States:
    """All states of every point; num_gpus (classes, points)."""
    slow = np.zeros((1, 0, num_gpus.shape[1]))
    weight = np.ones((1, num_gpus.shape[1]))
    for of_class in num_gpus:
        values, probability = _of_class(of_class, episodes.occupancy)
        repeated = np.repeat(slow, len(values), axis=0)
        added = np.tile(values, (len(slow), 1))[:, np.newaxis]
        slow = np.concatenate([repeated, added], axis=1)
        weight = (weight[:, np.newaxis] * probability).reshape(-1, num_gpus.shape[1])
    return States(np.concatenate([num_gpus - slow, slow], axis=1), weight)


def _of_class(num_gpus: Floats, occupancy: Floats) -> tuple[Floats, Floats]:
    """Numbers in an episode and their probabilities, both (states, points); 0 where unused."""
    low, high = _range(num_gpus, occupancy)
    listed = high - low + 1 <= _LISTED
    length = int(np.where(listed, high - low + 1, _GAUSS_NODES).max())
    values = low + np.arange(float(length))[:, np.newaxis]
    used = values <= high
    values = np.minimum(values, high)
    probability = np.where(used, _binomial(values, num_gpus, occupancy), 0)
    for point in np.flatnonzero(~listed).tolist():
        nodes, weights = _krawtchouk(float(num_gpus[point]), float(occupancy[point]))
        values[:, point] = nodes[-1]
        values[: len(nodes), point] = nodes
        probability[:, point] = 0
        probability[: len(nodes), point] = weights
    return values, probability / probability.sum(axis=0)


def _range(num_gpus: Floats, occupancy: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest number that matters."""
    mean = num_gpus * occupancy
    spread = 8 * np.sqrt(mean * (1 - occupancy))
    low = np.floor(np.maximum(mean - spread, 0))
    # The right tail of a small mean is longer than a normal one's: Poisson's.
    high = np.ceil(np.maximum(mean + spread, special.gammainccinv(1, _LEFT_OUT) / 2 + 2 * mean))
    return np.minimum(low, num_gpus), np.minimum(high, num_gpus)


def _binomial(number: Floats, num_gpus: Floats, probability: Floats) -> Floats:
    rest = num_gpus - number
    ways = -special.betaln(rest + 1, number + 1) - np.log1p(num_gpus)
    return np.exp(ways + special.xlogy(number, probability) + special.xlog1py(rest, -probability))


def _krawtchouk(num_gpus: float, probability: float) -> tuple[Floats, Floats]:
    """Nodes and weights of the Gauss rule for a binomial."""
    degree = np.arange(float(_GAUSS_NODES))
    diagonal = probability * (num_gpus - degree) + degree * (1 - probability)
    beside = np.sqrt(degree[1:] * probability * (1 - probability) * (num_gpus - degree[1:] + 1))
    jacobi = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return np.clip(nodes, 0, num_gpus), vectors[0] ** 2
