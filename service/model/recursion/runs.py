"""Runs of a recursion for points that go together: every replication's mean step."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.lasting import lasting_factors, num_ranks
from service.model.recursion.lengths import Lengths
from service.model.recursion.memory import spike_mean
from service.model.recursion.pattern import Pattern, Staleness
from service.model.recursion.round_steps import RoundSteps
from service.model.recursion.scores import BLOCK_STEPS, LANE
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
    """Of what is simulated instead: see similarity.py; (points,) each.

    expected   mean factor of a step of a rank, what lasts aside
    """

    noise: Floats
    excess: Floats
    expected: Floats


def run_of(
    fleet: Fleet, pattern: Pattern, lengths: Lengths, likeness: Likeness | None, seed: int
) -> Run:
    """Points of one seed, number of lanes, tensor-parallel size and autocorrelation."""
    size = int(fleet.tensor_parallel_size[0])
    num_lanes = int(lengths.num_lanes[0])
    # GPUs that stand by may leave a group that is not whole: nobody is in it.
    padded = -(-int(num_ranks(fleet).max()) // size) * size
    lasting = lasting_factors(fleet, seed, num_lanes, padded)
    drawn = StepFactors(fleet, seed, num_lanes, padded)
    recursion = _recursion(pattern, padded // size, num_lanes * LANE)
    expected = spike_mean(fleet)[:, np.newaxis]
    load: Floats | None = pattern.load_ratio[:, np.newaxis]
    slope, offset = lasting, None
    if likeness is not None:
        slope, offset = _alike(lasting, pattern.load_ratio[:, np.newaxis], likeness)
        offset = offset[::size]
    elif not pattern.load_ratio.any():
        load = None
    tiles = _tiles(padded, size, lasting[0].size)
    control = _Control(lasting, tiles.ranks)
    buffer = np.empty((tiles.num_steps, tiles.ranks[0].stop, *lasting.shape[1:]))
    clock = _Clock(lengths, lasting.shape[1:])
    for first in range(0, clock.last, tiles.num_steps):
        block, inside = divmod(first, BLOCK_STEPS)
        if inside == 0:
            drawn.draw(block)
        for step in range(first, first + tiles.num_steps):
            recursion.start()
            for tile, ranks in enumerate(tiles.ranks):
                factor = buffer[:, : ranks.stop - ranks.start]
                if step == first:
                    # Several steps at a time only where all ranks are one tile.
                    drawn.write(ranks, slice(inside, inside + tiles.num_steps), factor)
                    control.add(tile, factor, clock.is_measured(first, tiles.num_steps))
                    factor *= slope[ranks]
                of_step = factor[step - first]
                if size > 1:
                    of_step = of_step.reshape(-1, size, *of_step.shape[1:]).max(axis=1)
                groups = slice(ranks.start // size, ranks.stop // size)
                recursion.go(groups, of_step, load if offset is None else offset[groups])
            recursion.end()
            clock.stop(step + 1, recursion.front)
    num_steps = lengths.measured[:, np.newaxis]
    return Run(
        step=clock.measured / num_steps,
        control=control.sum / num_steps - control.slowest * expected,
        slowest=control.slowest,
    )


class _Tiles(NamedTuple):
    """Ranks that are taken at a time, whole groups, and for how many steps their factors."""

    ranks: list[slice]
    num_steps: int


def _tiles(num_ranks: int, size: int, columns: int) -> _Tiles:
    """So that the numbers stay in the cache."""
    length = max(_TILE // (columns * size), 1) * size
    ranks = [slice(first, min(first + length, num_ranks)) for first in range(0, num_ranks, length)]
    num_steps = 1
    while 2 * num_steps * num_ranks * columns <= _TILE and num_steps < BLOCK_STEPS:
        num_steps *= 2
    return _Tiles(ranks, num_steps)


class _Clock:
    """When the last rank ends the steps before and at the end of the measured ones."""

    def __init__(self, lengths: Lengths, shape: tuple[int, ...]) -> None:
        self._first = lengths.burnt
        self._stop = lengths.burnt + lengths.measured
        self._read = {*self._first.tolist(), *self._stop.tolist()}
        self.last = int(self._stop.max())
        self.measured = np.zeros(shape)

    def is_measured(self, first: int, num_steps: int) -> NDArray[np.bool_]:
        """(steps, points) whether these steps, counted from 0, are measured."""
        steps = np.arange(first, first + num_steps)[:, np.newaxis]
        measured: NDArray[np.bool_] = (steps >= self._first) & (steps < self._stop)
        return measured

    def stop(self, num_steps: int, front: Floats) -> None:
        """So many steps are done, the last rank's at `front` (points, replications)."""
        if num_steps in self._read:
            self.measured[self._first == num_steps] -= front[self._first == num_steps]
            self.measured[self._stop == num_steps] += front[self._stop == num_steps]


class _Control:
    """The factors of the rank that is slowest in what lasts, summed up over the measured steps."""

    def __init__(self, lasting: Floats, ranks: list[slice]) -> None:
        slowest = lasting.argmax(axis=0)
        self.slowest = np.take_along_axis(lasting, slowest[np.newaxis], axis=0)[0]
        self.sum = np.zeros(slowest.shape)
        column = np.arange(slowest.size).reshape(slowest.shape)
        self._columns = [column[(slowest >= some.start) & (slowest < some.stop)] for some in ranks]
        self._places = [
            (slowest.ravel()[columns] - some.start) * slowest.size + columns
            for some, columns in zip(ranks, self._columns, strict=True)
        ]

    def add(self, tile: int, factor: Floats, measured: NDArray[np.bool_]) -> None:
        """Factors (steps, ranks, points, replications) of a tile, without what lasts."""
        columns = self._columns[tile]
        if len(columns) == 0 or not measured.any():
            return
        drawn = factor.reshape(len(factor), -1).take(self._places[tile], axis=1)
        drawn *= measured[:, columns // self.sum.shape[1]]
        self.sum.ravel()[columns] += drawn.sum(axis=0) * self.slowest.ravel()[columns]


def _alike(lasting: Floats, load: Floats, likeness: Likeness) -> tuple[Floats, Floats]:
    """Slope and offset of a step in the factor: noise and differences of similar points."""
    noise, excess = likeness.noise[:, np.newaxis], likeness.excess[:, np.newaxis]
    expected = likeness.expected[:, np.newaxis]
    mean = load + lasting * expected
    slowest = mean.max(axis=0)
    slope = lasting * noise
    return slope, slowest - excess * (slowest - mean) - slope * expected


def _recursion(pattern: Pattern, num_ranks: int, replications: int) -> StaleSteps | RoundSteps:
    if isinstance(pattern, Staleness):
        return StaleSteps(pattern, num_ranks, replications)
    return RoundSteps(pattern, num_ranks, replications)
