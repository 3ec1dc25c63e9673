"""GPUs of a pipelined cluster that are slow or not by chance: the distribution of steps, exactly.

With one variable z for each kind of slow GPU, weighted by how many there are of it, the placements
in which at most `num_backup` replicas take longer than t are a coefficient of a product over
replicas, each factor the sum over the replica's states that take at most t. It is read off on the
unit circle, as in `slowest/placements.py`: with these weights the product lies around that
coefficient, so that ten standard deviations of angles are enough. Source: generating functions
[textbook]; compared with enumeration of all placements in the tests.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.replica_states import (
    Alike,
    Kinds,
    Spells,
    Stage,
    alike_replicas,
    kinds_of,
    spells_of,
)

# States times angles at a time: memory.
_AT_ONCE = 1 << 17

Complex = NDArray[np.complex128]


class Placements(NamedTuple):
    """Over all placements, spikes or episodes.

    step       (values,) makespan that a step waits for, distinct and rising; its probability
    factor     (stages, states) of a random replica; its makespan and probability (states,)
    """

    step: Floats
    step_probability: Floats
    factor: Floats
    makespan: Floats
    probability: Floats


class _Circle(NamedTuple):
    """Places on the unit circle: (kinds, angles), and (angles,) what reads off the coefficient."""

    weighted: Complex
    reader: Complex


def placements_of(cluster: OneCluster) -> Placements:
    """Of a cluster with `replica_states.is_exact`."""
    kinds, spells = kinds_of(cluster), spells_of(cluster)
    alike = alike_replicas(cluster, kinds, spells)
    makespan = cluster.makespans(np.hstack([some.factor for some in alike]))
    step, place = np.unique(makespan, return_inverse=True)
    below = np.zeros(len(step))
    probability = np.zeros(len(makespan))
    ends = np.cumsum([len(some.level) for some in alike])
    rows = [slice(end - len(some.level), end) for some, end in zip(alike, ends, strict=True)]
    for circle in _circles(kinds, len(makespan)):
        nominal = 1 - kinds.share.sum() + circle.weighted.sum(axis=0)
        ways = [_ways(some, kinds, spells, circle) for some in alike]
        terms = np.zeros((cluster.num_backup + 1, 1, len(circle.reader)), dtype=np.complex128)
        terms[0] = 1
        for some, of_state, row in zip(alike, ways, rows, strict=True):
            good = _up_to(of_state, place[row], len(step))
            bad = nominal**some.num_free - good
            terms = _times(terms, _few_bad(good, bad, some.number, cluster.num_backup))
            elsewhere = nominal ** (kinds.num_free - some.num_free)
            share = some.number / cluster.num_replicas
            probability[row] += share * (of_state @ (elsewhere * circle.reader)).real
        below += (terms.sum(axis=0) @ circle.reader).real
    # The last of all values is certain: round-off of the first ones is none of it.
    below = np.maximum.accumulate(np.clip(below, 0, 1))
    below[-1] = 1.0
    return Placements(
        step=step,
        step_probability=np.diff(below, prepend=0.0),
        factor=np.hstack([some.factor for some in alike]),
        makespan=makespan,
        probability=np.maximum(probability, 0) / np.maximum(probability, 0).sum(),
    )


def _circles(kinds: Kinds, num_states: int) -> Iterator[_Circle]:
    """All angles, some at a time."""
    sizes = kinds.num_angles
    total = int(np.prod(sizes, dtype=np.int64))
    chunk = max(_AT_ONCE // num_states, 1)
    for first in range(0, total, chunk):
        at = np.unravel_index(np.arange(first, min(first + chunk, total)), sizes or [1])
        turn = np.zeros(len(at[0]))
        angle = np.zeros((len(sizes), len(turn)))
        for kind, (places, size) in enumerate(zip(at, sizes, strict=False)):
            angle[kind] = 2 * np.pi * places / size
            turn += angle[kind] * kinds.number[kind]
        weighted = kinds.share[:, np.newaxis] * np.exp(1j * angle)
        yield _Circle(weighted, np.exp(-1j * turn) / (total * _multinomial(kinds)))


def _multinomial(kinds: Kinds) -> float:
    """P(so many of each kind) if the free places were filled independently."""
    rest = kinds.num_free - int(kinds.number.sum())
    counts = np.append(kinds.number, rest)
    share = counts / max(kinds.num_free, 1)
    logs = special.gammaln(kinds.num_free + 1.0) - special.gammaln(counts + 1.0).sum()
    return float(np.exp(logs + special.xlogy(counts, share).sum()))


def _ways(some: Alike, kinds: Kinds, spells: Spells, circle: _Circle) -> Complex:
    """(states, angles) of a replica: the product over its stages."""
    nominal = np.full((1, len(circle.reader)), 1 - kinds.share.sum())
    weight = np.concatenate([nominal, circle.weighted])
    factor = np.append(1.0, kinds.factor)
    ways = np.ones((len(some.level), len(circle.reader)), dtype=np.complex128)
    for stage, level in zip(some.stages, some.level.T, strict=True):
        of_free = _up_to_value(stage, factor, spells) @ weight
        up_to = of_free**stage.num_free
        up_to *= _up_to_value(stage, stage.placed, spells).prod(axis=1)[:, np.newaxis]
        ways *= np.diff(up_to, axis=0, prepend=0)[level]
    return ways


def _up_to_value(stage: Stage, factor: Floats, spells: Spells) -> Floats:
    """(values, factors) probabilities that GPUs of these factors are at most as slow."""
    slowness = factor[:, np.newaxis] * spells.factor
    is_below = slowness <= stage.value[:, np.newaxis, np.newaxis]
    found: Floats = is_below @ spells.probability
    return found


def _up_to(of_state: Complex, place: NDArray[np.intp], num_values: int) -> Complex:
    """(values, angles) sums over the states with at most each value; `place` is a state's own."""
    order = np.argsort(place, kind="stable")
    sums = np.vstack([np.zeros(of_state.shape[1]), np.cumsum(of_state[order], axis=0)])
    found: Complex = sums[np.searchsorted(place[order], np.arange(num_values), side="right")]
    return found


def _few_bad(good: Complex, bad: Complex, number: int, num_backup: int) -> Complex:
    """(up to num_backup + 1, values, angles) with 0, 1, … of these replicas above each value."""
    most = min(num_backup, number)
    return np.array(
        [special.binom(number, j) * bad**j * good ** (number - j) for j in range(most + 1)]
    )


def _times(terms: Complex, others: Complex) -> Complex:
    """Product of polynomials in the number of replicas above, up to the first one's degree."""
    product = np.zeros((len(terms), *others.shape[1:]), dtype=np.complex128)
    for j, other in enumerate(others):
        product[j:] += terms[: len(terms) - j] * other
    return product
