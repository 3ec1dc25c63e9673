"""The slowest GPU of one step of a random cluster, for every combination of sources.

Pooled over steps and clusters: what is drawn once for a cluster and what is drawn each step count
alike. Definitions: model page, sections 2 and 3.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.exchange.lines import Lines
from service.model.exchange.shared_lines import StepLines
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.slowest.barrier import Groups, Slowest, mean_only, slowest_of
from service.model.slowest.episodes import num_states
from service.model.slowest.layouts import Layout, layouts_of, sources_of_one
from service.model.slowest.pooled_steps import Classes, classes_of, steps_of
from service.model.slowest.rank_law import merged, no_source
from service.model.slowest.removal import without_removed
from service.model.slowest.step_quadrature import (
    Steps,
    means_by_state,
    nodes_of,
    quantiles_of,
    tightened,
    with_common,
    with_knots,
)
from service.model.slowest.trifles import without_trifling_episodes

Mask = NDArray[np.bool_]

CHUNK_POINTS = 64
"""Points at a time, of one state; fewer where there are more states."""


def pooled_slowest(fleet: Fleet, *, with_quantiles: bool = True) -> Slowest:
    """Mean and quantiles (p50, p95, p99) of the slowest factor of every point.

    Quantiles that nobody asks for, which take about as long as the mean, are NaN.

    Where the fleet has lines: of their value there, which is what a step takes.

    With episodes the mean is the effective one: 1 / (rho + mean) is the average over time of
    1 / (rho + expected slowest in that state), rho = `outside_ratio`.
    """
    lines = fleet.lines
    if isinstance(lines, Lines) and _are_straight(lines).any():
        return _along_lines(fleet, lines, with_quantiles=with_quantiles)
    fleet = without_removed(fleet)
    mean = np.empty(fleet.num_points)
    quantiles = np.empty((fleet.num_points, 3))
    for rows, part in without_trifling_episodes(fleet):
        for layout in layouts_of(part):
            found = _of_layout(part.part(layout.rows), layout, with_quantiles=with_quantiles)
            mean[rows[layout.rows]] = found.mean
            quantiles[rows[layout.rows]] = found.quantiles
    return Slowest(mean=mean, quantiles=quantiles, variance=np.full(len(mean), np.nan))


def _are_straight(lines: Lines) -> Mask:
    """(points,) whether a step is one line in its slowest factor."""
    straight: Mask = (lines.slope[0] == lines.slope[-1]) & (lines.slope[0] > 0)
    return straight


def _along_lines(fleet: Fleet, lines: Lines, *, with_quantiles: bool) -> Slowest:
    """Where the step is one line a + b S it is that of the slowest itself, without its rounding.

    1 / (rho + a + b S) is 1 / ((rho + a) / b + S) over b, so that episodes weigh as they should.
    """
    found = Slowest(
        mean=np.empty(fleet.num_points),
        quantiles=np.empty((fleet.num_points, 3)),
        variance=np.full(fleet.num_points, np.nan),
    )
    straight = _are_straight(lines)
    rows, others = np.flatnonzero(straight), np.flatnonzero(~straight)
    part, slope, offset = fleet.part(rows), lines.slope[-1, rows], lines.offset[-1, rows]
    beside = replace(part, lines=None, outside_ratio=(part.outside_ratio + offset) / slope)
    along = pooled_slowest(beside, with_quantiles=with_quantiles)
    found.mean[rows] = offset + slope * along.mean
    found.quantiles[rows] = offset[:, np.newaxis] + slope[:, np.newaxis] * along.quantiles
    if len(others):
        bent = pooled_slowest(fleet.part(others), with_quantiles=with_quantiles)
        found.mean[others], found.quantiles[others] = bent.mean, bent.quantiles
    return found


class Parts(NamedTuple):
    """(points,) means over the steps that are done, long ones being fewer in a window.

    slowest  of the slowest factor
    rest     of the step as a factor if the load were not hidden
    """

    slowest: Floats
    rest: Floats


def pooled_parts(fleet: Fleet) -> Parts:
    """What steps with lines consist of. With episodes, states weigh by how many steps they see."""
    fleet = without_removed(fleet)
    found = Parts(np.empty(fleet.num_points), np.empty(fleet.num_points))
    for rows, part in without_trifling_episodes(fleet):
        for layout in layouts_of(part):
            at = rows[layout.rows]
            found.slowest[at], found.rest[at] = _parts(part.part(layout.rows), layout)
    return found


def _parts(fleet: Fleet, layout: Layout) -> Parts:
    slowest, rest = [], []
    for part in _chunks(fleet):
        classes = classes_of(part)
        steps = tightened(steps_of(part, layout, classes))
        if part.common is not None:
            steps = with_common(steps, part.common)

        share = steps.weight / (part.outside_ratio + _by_state(part, classes, steps, part.lines))
        share /= share.sum(axis=0)
        slowest.append((share * _by_state(part, classes, steps, None)).sum(axis=0))
        rest.append(
            (share * _by_state(part, classes, steps, part.rest_lines or part.lines)).sum(axis=0)
        )
    return Parts(np.concatenate(slowest), np.concatenate(rest))


def _by_state(fleet: Fleet, classes: Classes, steps: Steps, lines: StepLines | None) -> Floats:
    """(states, points) mean of the lines' value."""
    panels = steps if lines is None else with_knots(steps, lines)
    means = means_by_state(panels, nodes_of(panels), lines)
    return _bounded(replace(fleet, lines=lines), classes, means)


def _of_layout(fleet: Fleet, layout: Layout, *, with_quantiles: bool) -> Slowest:
    groups = _one_law(fleet, layout)
    if groups is not None:
        return slowest_of(groups, with_quantiles=with_quantiles)
    return _tabulated(fleet, layout, with_quantiles=with_quantiles)


def _one_law(fleet: Fleet, layout: Layout) -> Groups | None:
    """The fleet as groups of one law, if its only factors are drawn for single GPUs."""
    others = (fleet.common, fleet.spikes, fleet.episodes)
    if any(source is not None for source in others) or layout.backup:
        return None
    if layout.node_size > 1 or layout.group_size > 1 or fleet.lines is not None:
        return None
    sources = merged(sources_of_one(fleet, layout) or [no_source(fleet.num_points)])
    if len(sources) > 1:
        return None
    return Groups(sources[0].law, fleet.num_gpus, fleet.mean, sources[0].shape)


def _tabulated(fleet: Fleet, layout: Layout, *, with_quantiles: bool) -> Slowest:
    means, quantiles = [], []
    for part in _chunks(fleet):
        classes = classes_of(part)
        steps, common = tightened(steps_of(part, layout, classes)), part.common
        if part.lines is not None:
            if common is not None:
                steps, common = with_common(steps, common), None
            steps = with_knots(steps, part.lines)
        nodes = nodes_of(steps)
        of_state = _bounded(part, classes, means_by_state(steps, nodes, part.lines))
        means.append(_effective(of_state, steps.weight, part.outside_ratio))
        if with_quantiles:
            quantiles.append(_quantiles(part, quantiles_of(steps, nodes, common)))
    if not with_quantiles:
        return mean_only(np.concatenate(means))
    return Slowest(
        mean=np.concatenate(means),
        quantiles=np.concatenate(quantiles),
        variance=np.full(fleet.num_points, np.nan),
    )


def _quantiles(fleet: Fleet, of_slowest: Floats) -> Floats:
    """(points, 3): the lines rise, so that they keep the order of steps."""
    if fleet.lines is None:
        return of_slowest
    values: Floats = fleet.lines.value(of_slowest.T).T
    return values


def _chunks(fleet: Fleet) -> Iterator[Fleet]:
    most_states = 1
    if fleet.episodes is not None:
        most_states = int(num_states(fleet.num_gpus, fleet.episodes.occupancy).max())
    points = max(CHUNK_POINTS * 16 // max(most_states, 16), 1)
    for start in range(0, fleet.num_points, points):
        yield fleet.part(slice(start, start + points))


def _bounded(fleet: Fleet, classes: Classes, mean: Floats) -> Floats:
    """At least the largest expectation of a GPU (Jensen), and exactly it for a single GPU.

    The quadrature's last digits are no gain and no loss. Lines are convex: at least their value.
    """
    slowest_kind = np.where(classes.num_gpus > 0, np.exp(classes.log_mean), 0).max(axis=1)
    if fleet.spikes is not None:
        slowest_kind *= 1 + fleet.spikes.probability * (fleet.spikes.slowdown - 1)
    one = classes.num_gpus.sum(axis=1) == 1
    if fleet.lines is not None:
        slowest_kind, one = fleet.lines.value(slowest_kind), np.zeros_like(one)
    larger = np.where(fleet.num_backup > 0, mean, np.maximum(mean, slowest_kind))
    bounded: Floats = np.where(one, slowest_kind, larger)
    return bounded


def _effective(mean: Floats, weight: Floats, outside_ratio: Floats) -> Floats:
    """(points,) the factor of which the time average of 1 / (outside + factor) is made."""
    if len(mean) == 1:
        only: Floats = mean[0]
        return only
    effective: Floats = 1 / (weight / (outside_ratio + mean)).sum(axis=0) - outside_ratio
    return effective
