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
from service.model.recursion.group_means import group_means
from service.model.recursion.lasting import num_ranks
from service.model.recursion.lengths import MAX_RANK_STEPS, Lengths, differ, lengths_of, rank_steps
from service.model.recursion.memory import spike_mean
from service.model.recursion.pattern import Pattern
from service.model.recursion.runs import Likeness, Run, run_of
from service.model.recursion.scores import LANE
from service.model.recursion.similarity import LAW_ERROR, Similar, similar
from service.model.recursion.simulated import Simulated
from service.model.slowest.pooled import pooled_slowest
from service.model.slowest.removal import slowest_class

MOST_RANK_STEPS = 10 * MAX_RANK_STEPS
"""Points are refused above MAX_RANK_STEPS, but may take longer without a cause of their loss."""
# Numbers of one kind that points simulated together have at most.
_TOGETHER = 1 << 16
# With fewer replications the expectation over clusters is no control.
_ENOUGH = 16
_HARDLY_EVER = 1e-7
_TINY = 1e-100

Ints = NDArray[np.int64]


class _Points(NamedTuple):
    """Points without episodes, and how they are simulated."""

    fleet: Fleet
    pattern: Pattern
    similar: Similar
    lengths: Lengths
    seed: Ints


class _Part(NamedTuple):
    """Of one point in one state: its estimate, and errors that the replications do not show."""

    found: Estimate
    further: float


def simulate(fleet: Fleet, pattern: Pattern, seed: Ints, draws: Ints) -> Simulated:
    """Every point; seed, draws (points,).

    Not covered, hence nan: backup workers, and points that need more than MOST_RANK_STEPS
    (`lengths.rank_steps_needed`).
    """
    states = states_of_points(_without_lines(fleet))
    given = pattern.part(states.point)
    alike = similar(states.fleet, given)
    lengths = lengths_of(states.fleet, given, alike.memory, draws[states.point], states.weight)
    of_state = rank_steps(states.fleet, lengths)
    drawn = np.bincount(states.point, of_state, fleet.num_points)
    covered = (fleet.num_backup == 0) & (drawn <= MOST_RANK_STEPS)
    mean = np.full(fleet.num_points, np.nan)
    mean_se = np.full(fleet.num_points, np.nan)
    rows = np.flatnonzero(covered[states.point])
    points = _Points(states.fleet, given, alike, lengths, seed[states.point])
    parts = _parts(points, rows)
    for point in np.flatnonzero(covered).tolist():
        of_point = np.flatnonzero(states.point == point).tolist()
        weight = states.weight[of_point]
        mean[point], mean_se[point] = _over_states([parts[row] for row in of_point], weight)
    return Simulated(mean, mean_se, np.where(covered, drawn, 0.0))


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
    further = float(share @ [part.further for part in parts])
    return mean, (drawn**2 + further**2) ** 0.5


def _parts(points: _Points, rows: NDArray[np.intp]) -> dict[int, _Part]:
    """Of these points, simulated together where they go together."""
    parts: dict[int, _Part] = {}
    fleet, alike = points.fleet, points.similar
    expected = _expected_slowest(fleet, rows)
    unseen = _unseen(points)
    for chunk in _chunks(points, rows):
        some, likeness, pattern = fleet.part(chunk), None, points.pattern.part(chunk)
        if alike.applies[chunk[0]]:
            # What all share shifts the ranks alike.
            some, pattern = replace(some, common=None), alike.pattern.part(chunk)
            means = group_means(some)
            likeness = Likeness(alike.noise[chunk], alike.excess[chunk], means)
        lengths = Lengths(*(column[chunk] for column in points.lengths))
        run = run_of(some, pattern, lengths, likeness, int(points.seed[chunk[0]]))
        expected_step = spike_mean(some) if likeness is None else likeness.expected
        for place, row in enumerate(chunk.tolist()):
            one = Run(*(values[place] for values in run))
            found = _estimated(
                one,
                own=pattern.load_ratio[place] + one.slowest * expected_step[place],
                excess=float(alike.excess[row]) if likeness is not None else None,
                expected_slowest=float(expected[row]),
            )
            parts[row] = found._replace(further=float(np.hypot(found.further, unseen[row])))
    return parts


def _unseen(points: _Points) -> Floats:
    """(points,) error by what is too seldom for the replications to show.

    Clusters in which two ranks are about as slow have an excess of about cv^2 / 2 slack, the others
    hardly any: what one such cluster less than expected would leave out. Besides, a rank that is
    hardly ever the last one.
    """
    seldom = np.where(num_ranks(points.fleet) > 1, _HARDLY_EVER, 0.0)
    if not differ(points.fleet):
        return seldom
    memory = points.similar.memory
    slack = memory.slack + memory.cv * np.sqrt(memory.gate)
    pair = memory.step * memory.cv**2 / (2 * np.maximum(slack, _TINY))
    unseen: Floats = np.hypot(pair / (LANE * points.lengths.num_lanes), seldom)
    return unseen


def _estimated(run: Run, *, own: Floats, excess: float | None, expected_slowest: float) -> _Part:
    """One point; own (replications,) the step that the slowest rank takes by itself."""
    step = run.step if excess is None else own + (run.step - own) / excess
    controls = [run.control]
    if len(step) >= _ENOUGH and np.isfinite(expected_slowest):
        controls.append(run.slowest - expected_slowest)
    found = estimate(step, controls)
    law_error = 0.0
    if excess is not None:
        law_error = LAW_ERROR * abs(estimate(step - own, [run.control]).mean)
    return _Part(found, law_error)


def _expected_slowest(fleet: Fleet, rows: NDArray[np.intp]) -> Floats:
    """(points,) of the slowest lasting factor; nan where no quadrature tells."""
    expected = np.full(fleet.num_points, np.nan)
    lasting = replace(fleet.part(rows), transient=None, replica=None, common=None, spikes=None)
    if not lasting.is_random:
        expected[rows] = slowest_class(lasting)
    elif not lasting.stands_by_lastingly or lasting.node is None:
        expected[rows] = pooled_slowest(lasting, with_quantiles=False).mean
    return expected


def _chunks(points: _Points, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Points that go together: alike in all that the arrays' shapes hang on, about as long."""
    if len(rows) == 0:
        return []
    fleet, lengths = points.fleet, points.lengths
    ranks = num_ranks(fleet)
    steps = lengths.burnt + lengths.measured
    keys = np.stack(
        [
            points.seed,
            lengths.num_lanes,
            fleet.tensor_parallel_size,
            points.similar.applies,
            fleet.autocorrelation,
            np.floor(2 * np.log2(ranks)),
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
