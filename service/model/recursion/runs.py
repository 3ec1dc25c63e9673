"""Runs of a recursion for points that go together: every replication's mean step."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.lasting import lasting_factors
from service.model.recursion.lengths import Lengths
from service.model.recursion.memory import spike_mean
from service.model.recursion.pattern import Pattern, Staleness
from service.model.recursion.round_steps import RoundSteps
from service.model.recursion.scores import LANE
from service.model.recursion.stale_steps import StaleSteps
from service.model.recursion.step_factors import StepFactors

# Numbers at a time, so that they stay in the cache.
_TILE = 1 << 15


class Run(NamedTuple):
    """(points, replications) each.

    step     mean step
    control  mean factor, over the same steps, of the rank with the slowest lasting factor, less
             what is expected of it
    slowest  that lasting factor
    """

    step: Floats
    control: Floats
    slowest: Floats


class Likeness(NamedTuple):
    """Of what is simulated instead: see similarity.py; (points,) each."""

    noise: Floats
    excess: Floats


def run_of(
    fleet: Fleet, pattern: Pattern, lengths: Lengths, likeness: Likeness | None, seed: int
) -> Run:
    """Points of one seed, number of lanes, tensor-parallel size and autocorrelation."""
    size = int(fleet.tensor_parallel_size[0])
    num_lanes = int(lengths.num_lanes[0])
    padded = _padded(int(fleet.num_gpus.sum(axis=0).max() + 0.5), size)
    lasting = lasting_factors(fleet, seed, num_lanes, padded)
    drawn = StepFactors(fleet, seed, num_lanes, padded)
    recursion = _recursion(pattern, padded // size, num_lanes * LANE)
    control = _Control(lasting)
    expected = spike_mean(fleet)[:, np.newaxis]
    load = pattern.load_ratio[:, np.newaxis]
    slope, offset = lasting, np.broadcast_to(load, lasting.shape)
    if likeness is not None:
        slope, offset = _alike(lasting, load, expected, likeness)
    begun, ended = np.zeros(control.slowest.shape), np.zeros(control.slowest.shape)
    slices = _slices(padded, size, control.slowest.size)
    buffer = np.empty((slices[0].stop, *control.slowest.shape))
    stop = lengths.burnt + lengths.measured
    for step in range(int(stop.max())):
        drawn.start(step)
        recursion.start()
        measured = np.logical_and(step >= lengths.burnt, step < stop)
        for ranks in slices:
            factor = buffer[: ranks.stop - ranks.start]
            drawn.write(ranks, factor)
            control.add(ranks, factor, measured)
            factor *= slope[ranks]
            groups = slice(ranks.start // size, ranks.stop // size)
            if size > 1:
                factor = factor.reshape(-1, size, *factor.shape[1:]).max(axis=1)
            recursion.go(groups, factor, load if likeness is None else offset[ranks])
        recursion.end()
        np.copyto(begun, recursion.front, where=np.equal(lengths.burnt, step + 1)[:, np.newaxis])
        np.copyto(ended, recursion.front, where=np.equal(stop, step + 1)[:, np.newaxis])
    num_steps = lengths.measured[:, np.newaxis]
    return Run(
        step=(ended - begun) / num_steps,
        control=control.sum / num_steps - control.slowest * expected,
        slowest=control.slowest,
    )


class _Control:
    """The factors of the rank that is slowest in what lasts, summed up over the measured steps."""

    def __init__(self, lasting: Floats) -> None:
        rank = lasting.argmax(axis=0)
        self.slowest = np.take_along_axis(lasting, rank[np.newaxis], axis=0)[0]
        self.sum = np.zeros(rank.shape)
        order = np.argsort(rank, axis=None, kind="stable")
        self._rank = rank.ravel()[order]
        self._column = order

    def add(self, ranks: slice, factor: Floats, measured: NDArray[np.bool_]) -> None:
        """The ranks of this slice, with factors (ranks, points, replications) without lasting."""
        first, last = np.searchsorted(self._rank, [ranks.start, ranks.stop])
        if first == last or not measured.any():
            return
        column = self._column[first:last]
        place = (self._rank[first:last] - ranks.start) * self.sum.size + column
        drawn = factor.ravel().take(place) * self.slowest.ravel()[column]
        self.sum.ravel()[column] += drawn * measured[column // self.sum.shape[1]]


def _alike(
    lasting: Floats, load: Floats, expected: Floats, likeness: Likeness
) -> tuple[Floats, Floats]:
    """Slope and offset of a step in the factor: noise and differences of similar points."""
    noise, excess = likeness.noise[:, np.newaxis], likeness.excess[:, np.newaxis]
    mean = load + lasting * expected
    slowest = mean.max(axis=0)
    slope = lasting * noise
    return slope, slowest - excess * (slowest - mean) - slope * expected


def _recursion(pattern: Pattern, num_ranks: int, replications: int) -> StaleSteps | RoundSteps:
    if isinstance(pattern, Staleness):
        return StaleSteps(pattern, num_ranks, replications)
    return RoundSteps(pattern, num_ranks, replications)


def _padded(num_ranks: int, size: int) -> int:
    return -(-num_ranks // size) * size


def _slices(num_ranks: int, size: int, columns: int) -> list[slice]:
    """Of whole groups."""
    length = max(_TILE // (columns * size), 1) * size
    return [slice(first, min(first + length, num_ranks)) for first in range(0, num_ranks, length)]
