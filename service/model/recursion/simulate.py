"""Mean steps of fleets whose ranks wait for each other by a pattern, by simulation.

Exact up to the standard error, but for the law of `similarity.py` where memories are long.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.episode_states import states_of_points
from service.model.recursion.estimates import Estimate, estimate, standard_error
from service.model.recursion.lasting import num_ranks
from service.model.recursion.lengths import MAX_RANK_STEPS, Lengths, lengths_of
from service.model.recursion.memory import spike_mean
from service.model.recursion.pattern import Pattern
from service.model.recursion.runs import Likeness, Run, run_of
from service.model.recursion.scores import LANE
from service.model.recursion.similarity import LAW_ERROR, Scaled, scaled
from service.model.recursion.simulated import Simulated
from service.model.slowest.pooled import pooled_slowest
from service.model.slowest.removal import slowest_class

# Numbers of one kind that points simulated together have at most.
_TOGETHER = 1 << 16
# With fewer replications the expectation over clusters is no control.
_ENOUGH = 16

Ints = NDArray[np.int64]


class _Part(NamedTuple):
    """Of one point in one state: its estimate, and the error that the law adds."""

    found: Estimate
    law_error: float


def simulate(fleet: Fleet, pattern: Pattern, seed: Ints, draws: Ints) -> Simulated:
    """Every point; seed, draws (points,).

    Not covered, hence nan: backup workers, and points that need more than MAX_RANK_STEPS
    (`lengths.rank_steps_needed`).
    """
    states = states_of_points(_without_lines(fleet))
    given = scaled(states.fleet, pattern.part(states.point))
    lengths = lengths_of(states.fleet, given.pattern, given.memory, draws[states.point])
    of_state = LANE * lengths.num_lanes * (lengths.burnt + lengths.measured) * 1.0
    of_state *= num_ranks(states.fleet)
    rank_steps = np.bincount(states.point, of_state, fleet.num_points)
    covered = (fleet.num_backup == 0) & (rank_steps <= MAX_RANK_STEPS)
    mean = np.full(fleet.num_points, np.nan)
    mean_se = np.full(fleet.num_points, np.nan)
    rows = np.flatnonzero(covered[states.point])
    parts = _parts(states.fleet, given, lengths, seed[states.point], rows)
    for point in np.flatnonzero(covered).tolist():
        of_point = np.flatnonzero(states.point == point).tolist()
        weight = states.weight[of_point]
        mean[point], mean_se[point] = _over_states([parts[row] for row in of_point], weight)
    return Simulated(mean, mean_se, np.where(covered, rank_steps, 0.0))


def _without_lines(fleet: Fleet) -> Fleet:
    """The fleet of a plain barrier."""
    return replace(fleet, lines=None, rest_lines=None, round_steps=None, pattern=None)


def _over_states(parts: list[_Part], weight: Floats) -> tuple[float, float]:
    """1 / the average over time of 1 / step, and its standard error; states share their luck."""
    means = np.array([part.found.mean for part in parts])
    mean = 1 / float(weight @ (1 / means))
    share = weight * (mean / means) ** 2
    deviations = sum(
        of_state * part.found.deviations for of_state, part in zip(share, parts, strict=True)
    )
    drawn = standard_error(np.asarray(deviations), max(part.found.widening for part in parts))
    law = float(share @ [part.law_error for part in parts])
    return mean, (drawn**2 + law**2) ** 0.5


def _parts(
    fleet: Fleet, given: Scaled, lengths: Lengths, seed: Ints, rows: NDArray[np.intp]
) -> dict[int, _Part]:
    """Of these points, simulated together where they go together."""
    parts: dict[int, _Part] = {}
    expected = _expected_slowest(fleet, rows)
    for chunk in _chunks(fleet, given, lengths, seed, rows):
        some = fleet.part(chunk)
        pattern = given.pattern.part(chunk)
        of_chunk = Lengths(*(column[chunk] for column in lengths))
        likeness = None
        if given.is_scaled[chunk[0]]:
            likeness = Likeness(given.noise[chunk], given.excess[chunk])
            # What all share shifts the ranks alike.
            some = replace(some, common=None)
        run = run_of(some, pattern, of_chunk, likeness, int(seed[chunk[0]]))
        spikes = spike_mean(some)
        for place, row in enumerate(chunk.tolist()):
            one = Run(*(values[place] for values in run))
            parts[row] = _estimated(
                one,
                own=pattern.load_ratio[place] + one.slowest * spikes[place],
                excess=float(given.excess[row]) if likeness is not None else None,
                expected_slowest=float(expected[row]),
            )
    return parts


def _estimated(run: Run, *, own: Floats, excess: float | None, expected_slowest: float) -> _Part:
    """One point; own (replications,) the step that the slowest rank takes by itself."""
    step = run.step if excess is None else own + (run.step - own) / excess
    controls = [run.control]
    if len(step) >= _ENOUGH and np.isfinite(expected_slowest):
        controls.append(run.slowest - expected_slowest)
    found = estimate(step, controls)
    law_error = 0.0 if excess is None else LAW_ERROR * abs(float((step - own).mean()))
    return _Part(found, law_error)


def _expected_slowest(fleet: Fleet, rows: NDArray[np.intp]) -> Floats:
    """(points,) of the slowest lasting factor; nan where no quadrature tells."""
    expected = np.full(fleet.num_points, np.nan)
    lasting = replace(fleet.part(rows), transient=None, replica=None, common=None, spikes=None)
    if not lasting.is_random:
        expected[rows] = slowest_class(lasting)
    elif not lasting.stands_by_lastingly or lasting.node is None:
        expected[rows] = pooled_slowest(lasting).mean
    return expected


def _chunks(
    fleet: Fleet, given: Scaled, lengths: Lengths, seed: Ints, rows: NDArray[np.intp]
) -> list[NDArray[np.intp]]:
    """Points that go together: alike in all that the arrays' shapes hang on, about as long."""
    if len(rows) == 0:
        return []
    ranks = num_ranks(fleet)
    steps = lengths.burnt + lengths.measured
    keys = np.stack(
        [
            seed,
            lengths.num_lanes,
            fleet.tensor_parallel_size,
            given.is_scaled,
            fleet.autocorrelation,
            np.floor(4 * np.log2(ranks)),
            np.floor(2 * np.log2(steps)),
        ]
    )[:, rows]
    _, group = np.unique(keys, axis=1, return_inverse=True)
    chunks = []
    for code in range(int(group.max()) + 1):
        alike = rows[group == code]
        width = int(ranks[alike].max()) * LANE * int(lengths.num_lanes[alike[0]])
        size = max(_TOGETHER // width, 1)
        chunks += [alike[first : first + size] for first in range(0, len(alike), size)]
    return chunks
