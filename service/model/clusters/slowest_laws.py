"""The distribution of the slowest GPU, ready for integrals and quantiles.

For one law and GPUs that share nothing it is a sum of rates; everything else comes from the tables
of `pooled_steps.py`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.exchange.shared_lines import StepLines
from service.model.fleet import Fleet
from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.slowest.barrier import Groups
from service.model.slowest.layouts import Layout, layouts_of, sources_of_one
from service.model.slowest.nodes import mapped_legendre
from service.model.slowest.pooled_steps import classes_of, steps_of
from service.model.slowest.rank_law import merged
from service.model.slowest.removal import without_removed
from service.model.slowest.step_quadrature import (
    breaks_with_knots,
    tightened,
    with_knots,
)

_OUTSIDE = 1e-11
_CHUNK_OF_ONE_LAW = 2048
_CHUNK = 16
_NODES_OF_ONE_PANEL, _NODES = 64, 48


class SlowestLaw(NamedTuple):
    """Of the points `rows` of a fleet.

    above   from v, (..., points), to P(log of the slowest > v)
    breaks  (breaks, points) of v, ascending: 1 below the first, about 0 above the last
    groups  the same as groups of one law that is no table, where it is that
    lines   what a step takes given its slowest factor; None: that factor
    """

    rows: NDArray[np.intp]
    above: Callable[[Floats], Floats]
    breaks: Floats
    groups: Groups | None = None
    lines: StepLines | None = None


class Integral(NamedTuple):
    """What a step takes, as a factor, over the slowest GPU's factor t, (nodes, points) each.

    value   of a step whose slowest factor is the node's t; without lines it is t
    weight  of an integral over that value
    above   P(slowest > t)
    low     (points,) the value at the lower end, below which it never is
    """

    value: Floats
    weight: Floats
    above: Floats
    low: Floats


def slowest_laws(fleet: Fleet) -> Iterator[SlowestLaw]:
    """The slowest factor's law, chunk by chunk; episodes and common factor left out."""
    fleet = without_removed(replace(fleet, episodes=None, common=None))
    for layout in layouts_of(fleet):
        size = _CHUNK if _shares(fleet, layout) else _CHUNK_OF_ONE_LAW
        for start in range(0, len(layout.rows), size):
            rows = layout.rows[start : start + size]
            part = fleet.part(rows)
            of_chunk = layout._replace(rows=rows)
            law = _tabulated(part, of_chunk) if size == _CHUNK else _of_one_law(part, of_chunk)
            yield law if part.lines is None else _with_lines(law, part.lines)


def _with_lines(law: SlowestLaw, lines: StepLines) -> SlowestLaw:
    return law._replace(breaks=breaks_with_knots(law.breaks, lines), groups=None, lines=lines)


def means_by_state(fleet: Fleet) -> Iterator[tuple[NDArray[np.intp], Floats, Floats]]:
    """Rows, means and weights (states, points) in time, of the states that episodes make."""
    fleet = without_removed(replace(fleet, common=None))
    for layout in layouts_of(fleet):
        for row in layout.rows.tolist():
            rows = np.array([row])
            part = fleet.part(rows)
            steps = tightened(steps_of(part, layout._replace(rows=rows), classes_of(part)))
            if part.lines is not None:
                steps = with_knots(steps, part.lines)
            v, weight = _nodes(steps.breaks)
            t, low = np.exp(v), np.exp(steps.breaks[0])
            _, of_value, lowest = _values(part.lines, t, weight * t, low)
            yield rows, lowest + (steps.above(v) * of_value).sum(axis=1), steps.weight


def integral_of(law: SlowestLaw) -> Integral:
    """P(slowest > t) at the nodes of an integral over what a step takes."""
    v, weight = _nodes(law.breaks)
    t = np.exp(v)
    value, of_value, low = _values(law.lines, t, weight * t, np.exp(law.breaks[0]))
    return Integral(value, of_value, law.above(v), low)


def _values(
    lines: StepLines | None, t: Floats, weight: Floats, low: Floats
) -> tuple[Floats, Floats, Floats]:
    """From factors t and weights of an integral over them to those of what a step takes."""
    if lines is None:
        return t, weight, low
    return lines.value(t), weight * lines.slope_at(t), lines.value(low)


def _nodes(breaks: Floats) -> tuple[Floats, Floats]:
    """(nodes, points) v and the weights of an integral over v, panel by panel."""
    rule = mapped_legendre(_NODES_OF_ONE_PANEL if len(breaks) == 2 else _NODES)
    width = breaks[1:] - breaks[:-1]
    v = breaks[:-1, np.newaxis] + width[:, np.newaxis] * rule.nodes[:, np.newaxis]
    weight = width[:, np.newaxis] * rule.weights[:, np.newaxis]
    shape = (-1, breaks.shape[1])
    return v.reshape(shape), weight.reshape(shape)


def _shares(fleet: Fleet, layout: Layout) -> bool:
    """Whether there is more to it than single GPUs of one law."""
    if fleet.spikes is not None or layout.backup:
        return True
    if layout.node_size > 1 or layout.group_size > 1:
        return True
    return len(merged(sources_of_one(fleet, layout))) != 1


def _of_one_law(fleet: Fleet, layout: Layout) -> SlowestLaw:
    (source,) = merged(sources_of_one(fleet, layout))
    law, shape, num_gpus, mean = source.law, source.shape, fleet.num_gpus, fleet.mean

    def above(v: Floats) -> Floats:
        # Of many points at once: by the fast rates, which are good to 1e-9 in the far tail.
        x = law.warp(np.exp(v))
        total = np.zeros_like(x)
        for of_class, factor in zip(num_gpus, mean, strict=True):
            if of_class.any():
                law.add_rate(x, factor, shape, of_class, total)
        return -np.expm1(-total)

    of_all = np.maximum(num_gpus, 1)
    log_low = np.log(_OUTSIDE) / of_all
    lows = np.array([law.lower_quantile(row, shape) for row in log_low])
    highs = np.array([law.upper_quantile(row, shape) for row in _OUTSIDE / of_all])
    lows = np.where(num_gpus > 0, mean * lows, 0).max(axis=0)
    highs = np.where(num_gpus > 0, mean * highs, 0).max(axis=0)
    ends = np.log(np.stack([np.maximum(lows, _OUTSIDE), highs]))
    groups = None if isinstance(law, Table) else Groups(law, num_gpus, mean, shape)
    return SlowestLaw(layout.rows, above, ends, groups)


def _tabulated(fleet: Fleet, layout: Layout) -> SlowestLaw:
    steps = tightened(steps_of(fleet, layout, classes_of(fleet)))
    return SlowestLaw(layout.rows, lambda v: steps.above(v)[0], steps.breaks)
