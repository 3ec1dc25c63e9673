"""Mean and quantiles of the slowest of a step, from the rates of its parts.

The mean is lo + the integral of P(slowest > t) over t, in log t, on panels between the places
where a copy of the GPUs' law (a class, its spikes) begins and ends to matter. Source: model page,
section 3; `numerics.md` 2 and 3.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.exchange.shared_lines import StepLines
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.barrier import PROBABILITIES
from service.model.slowest.falling_root import bracket_of_root, falling_root
from service.model.slowest.mixing import Kinds, mixed_one
from service.model.slowest.nodes import mapped_legendre
from service.model.slowest.panels import Panels, finer, interpolated
from service.model.slowest.panels import nodes_of as table_nodes
from service.model.slowest.scores import HIGHEST, log_at

_TARGETS = np.log(-np.log(np.array(PROBABILITIES)))[:, np.newaxis]
# Scores of the common factor between which the quantiles are looked for.
_COMMON_SCORE = 5.0


# -log of the distribution function at the ends of the integral, and how close to meet it.
_AT_ENDS = np.array([30.0, 1e-13])
_ENDS_TO = 2e-3
_NODES_ALONE, _NODES_OF_PANEL = 56, 96
# Of many panels each, as they lie between the knots of many lines.
_MANY_PANELS, _NODES_OF_MANY = 8, 32
# Of log t: ranges so long are cut so far from their end.
_FAR_DOWN, _NEAR = 3.0, 2.5
# Panels of the product with a factor that all share.
_PARTS_OF_PRODUCT = 3
# Panels of the table of the slowest between two breaks.
_PARTS_OF_PANEL = 20

Above = Callable[[Floats], Floats]


class Steps(NamedTuple):
    """Steps of `points` fleets.

    above    from v, (rows, points), to P(log of the slowest factor > v) by state, (states, rows,
             points)
    weight   (states, points) share of the time
    breaks   (breaks, points) ascending: `above` is 1 below the first, 0 above the last
    parts    into which the panels between breaks are cut
    """

    above: Above
    weight: Floats
    breaks: Floats
    parts: int = 1


def tightened(steps: Steps) -> Steps:
    """The same steps with the first and the last break where they hardly matter."""

    def excess(v: Floats) -> Floats:
        """The state with the fastest steps decides about the lower end."""
        above = steps.above(v)
        decisive = np.stack([above[:, 0].min(axis=0), above[:, 1].max(axis=0)])
        from_target: Floats = _log_rate(decisive) - np.log(_AT_ENDS)[:, np.newaxis]
        return from_target

    left, right = (np.stack([end, end]) for end in steps.breaks[[0, -1]])
    starts, ends = bracket_of_root(excess, left, right, _ENDS_TO)
    breaks = _near_the_end(np.clip(steps.breaks, starts[0], ends[1]))
    return steps._replace(breaks=finer(breaks, steps.parts))


def _near_the_end(breaks: Floats) -> Floats:
    """The breaks, and one more where some point's steps reach far down: there is little to see.

    A few GPUs whose factors may be next to nothing: the slowest, or the slowest that is waited for,
    then is so now and then.
    """
    if (breaks[-1] - breaks[0] < _FAR_DOWN).all():
        return breaks
    found: Floats = np.sort(np.vstack([breaks, np.maximum(breaks[0], breaks[-1] - _NEAR)]), axis=0)
    return found


def with_common(steps: Steps, common: Source) -> Steps:
    """The same steps times a factor that all GPUs share, state by state."""
    edges = finer(steps.breaks, -(-_PARTS_OF_PANEL // steps.parts))
    log_survival = np.log(np.clip(steps.above(table_nodes(edges)), np.finfo(np.float64).tiny, 1))
    everywhere = np.ones((len(steps.breaks) - 1, steps.breaks.shape[1]), dtype=np.bool_)
    tables = [interpolated(edges, of_state[np.newaxis]) for of_state in log_survival]

    def above(v: Floats) -> Floats:
        return np.stack([mixed_one(common, _kind(table, steps, everywhere), v) for table in tables])

    score = np.full_like(steps.breaks[0], HIGHEST)
    low = steps.breaks[0] + log_at(common, -score)
    high = steps.breaks[-1] + log_at(common, score)
    return tightened(Steps(above, steps.weight, np.stack([low, high]), _PARTS_OF_PRODUCT))


def _kind(table: Panels, steps: Steps, everywhere: NDArray[np.bool_]) -> Kinds:
    return Kinds(lambda v: np.exp(table.values(v)), steps.breaks, everywhere)


def with_knots(steps: Steps, lines: StepLines) -> Steps:
    """The same steps with a break where one line gives way to the next: no node lies across."""
    return steps._replace(breaks=breaks_with_knots(steps.breaks, lines))


def breaks_with_knots(breaks: Floats, lines: StepLines) -> Floats:
    """(breaks, points) of log factors, and the knots between the first and the last of them."""
    knots = np.log(np.maximum(lines.knots, np.finfo(np.float64).tiny))
    inside = np.clip(knots, breaks[0], breaks[-1])
    found: Floats = np.sort(np.concatenate([breaks, inside]), axis=0)
    return found


class Nodes(NamedTuple):
    """The quadrature: log times, their weights in time and `above` there, (..., nodes, points)."""

    v: Floats
    weights: Floats
    above: Floats


def nodes_of(steps: Steps) -> Nodes:
    """Where all that follows is read from."""
    breaks = steps.breaks
    panels = len(breaks) - 1
    few = _NODES_ALONE if panels == 1 else _NODES_OF_PANEL
    rule = mapped_legendre(few if panels <= _MANY_PANELS else _NODES_OF_MANY)
    width = breaks[1:] - breaks[:-1]
    # Breaks below the tightened end are that end: nothing lies between them.
    long = np.asarray((width > 0).any(axis=1))
    long[-1] = True
    width, breaks = width[long], breaks[:-1][long]
    v = breaks[:, np.newaxis] + width[:, np.newaxis] * rule.nodes[:, np.newaxis]
    weights = np.exp(v) * width[:, np.newaxis] * rule.weights[:, np.newaxis]
    v, weights = (values.reshape(-1, breaks.shape[1]) for values in (v, weights))
    return Nodes(v, weights, steps.above(v))


def means_by_state(steps: Steps, nodes: Nodes, lines: StepLines | None = None) -> Floats:
    """(states, points) of the slowest factor, or of the lines' value there.

    E[h(S)] = h(lo) + the integral of h'(t) P(S > t) from lo on; with knots among the breaks h' is
    constant between two of them.
    """
    low = np.exp(steps.breaks[0])
    if lines is None:
        means: Floats = low + (nodes.above * nodes.weights).sum(axis=1) + _tail(steps)
        return means
    weights = nodes.weights * lines.slope_at(np.exp(nodes.v))
    integral = (nodes.above * weights).sum(axis=1)
    of_lines: Floats = lines.value(low) + integral + _tail(steps) * lines.slope[-1]
    return of_lines


def _tail(steps: Steps) -> Floats:
    """(states, points): the integral beyond the last break, as a power of t falls there."""
    end = steps.breaks[-1]
    before = end - 1e-3 * (end - steps.breaks[0])
    upper, lower = steps.above(np.stack([end, before])).swapaxes(0, 1)
    tiny = np.finfo(np.float64).tiny
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log(np.maximum(lower, tiny) / np.maximum(upper, tiny)) / (end - before)
        beyond = upper * np.exp(end) / (power - 1)
    return np.where(power > 1, beyond, 0.0)


def quantiles_of(steps: Steps, nodes: Nodes, common: Source | None) -> Floats:
    """(points, 3) of one step at a random time."""
    above = _over_time(steps.weight, nodes.above)
    if common is None:
        roots = _roots(lambda v: _over_time(steps.weight, steps.above(v)), steps, nodes.v, above)
    else:
        roots = _roots_with_common(steps, common)
    found: Floats = np.exp(roots).T
    return found


def _roots(of_time: Above, steps: Steps, v: Floats, above: Floats) -> Floats:
    """(3, points), each looked for between two nodes of the quadrature."""
    wanted = 1 - np.array(PROBABILITIES)[:, np.newaxis, np.newaxis]
    number = (above > wanted).sum(axis=1)
    ends = np.concatenate([steps.breaks[:1], v, steps.breaks[-1:]])
    left, right = (np.take_along_axis(ends, number + side, axis=0) for side in (0, 1))
    return falling_root(lambda v: _log_rate(of_time(v)) - _TARGETS, left, right)


def _roots_with_common(steps: Steps, common: Source) -> Floats:
    """(3, points) of the product with a factor that all share, from a table of the slowest."""
    edges = finer(steps.breaks, -(-_PARTS_OF_PANEL // steps.parts))
    survival = _over_time(steps.weight, steps.above(table_nodes(edges)))
    log_survival = np.log(np.clip(survival, np.finfo(np.float64).tiny, 1))
    everywhere = np.ones((len(steps.breaks) - 1, steps.breaks.shape[1]), dtype=np.bool_)
    slowest = _kind(interpolated(edges, log_survival[np.newaxis]), steps, everywhere)
    score = np.full(len(PROBABILITIES), _COMMON_SCORE)[:, np.newaxis]
    return falling_root(
        lambda v: _log_rate(mixed_one(common, slowest, v)) - _TARGETS,
        steps.breaks[0] + log_at(common, -score * np.ones_like(steps.breaks[0])),
        steps.breaks[-1] + log_at(common, score * np.ones_like(steps.breaks[0])),
    )


def _over_time(weight: Floats, above: Floats) -> Floats:
    """(nodes, points): of weights (states, points) and (states, nodes, points)."""
    mean: Floats = (above * weight[:, np.newaxis]).sum(axis=0)
    return mean


def _log_rate(above: Floats) -> Floats:
    rate = -np.log1p(-np.minimum(above, 1 - 2.0**-53))
    log_rate: Floats = np.log(np.maximum(rate, np.finfo(np.float64).tiny))
    return log_rate
