"""What a step takes at every point, and without one cause after the other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from service.model.causes import CAUSES, Factors, Mean, unknown_causes, without_causes
from service.model.clusters.spread import Spread, spread_of
from service.model.columns import Columns, Floats
from service.model.exchange.shared_lines import StepLines
from service.model.fleet import Fleet
from service.model.fleets import Structure
from service.model.laws.empirical import Table
from service.model.laws.source import Source
from service.model.piped_steps import as_makespans, piped_factors
from service.model.recursion.pattern import Pattern
from service.model.recursion.simulate import simulate
from service.model.recursion.simulated import Simulated
from service.model.results import METHODS
from service.model.round_means import with_round_means
from service.model.slowest.barrier import (
    PROBABILITIES,
    Groups,
    Slowest,
    excess_of,
    mean_only,
    slowest_of,
)
from service.model.slowest.pooled import pooled_parts, pooled_slowest
from service.model.slowest.removal import slowest_class
from service.model.slowest.sizes import slowest_of_sizes
from service.model.stage_sizes import has_pipeline

CLOSED_FORM = METHODS.index("closed_form")
QUADRATURE = METHODS.index("quadrature")
RECURSION = METHODS.index("recursion")
PER_STEP: dict[str, Any] = {"transient": None, "replica": None, "common": None, "spikes": None}

# More lines than these are quicker integrated together.
_FEW_LINES = 4
_SECANTS, _SETTLED = 3, 1e-13

Codes = NDArray[np.int8]


class _Asked(NamedTuple):
    """What is asked for beside the mean."""

    causes: bool
    quantiles: bool


def steps_of(
    structures: Sequence[Structure], *, with_causes: bool = True, with_quantiles: bool = True
) -> tuple[Factors, Codes]:
    """Factors (…, points) and methods (points,), worked out once for points that share them.

    What nobody asks for may be NaN.
    """
    asked = _Asked(causes=with_causes, quantiles=with_quantiles)
    num_points = sum(len(structure.rows) for structure in structures)
    factors = Factors(
        slowest=_empty(num_points),
        step=_empty(num_points),
        rest=np.empty(num_points),
        without=np.empty((len(CAUSES), num_points)),
        mean_se=np.empty(num_points),
    )
    method = np.empty(num_points, dtype=np.int8)
    for structure in structures:
        rows = structure.rows
        found, of_rows = _of_structure(structure.columns, structure.fleet, asked)
        if structure.fleet.pipeline is None and len(rows) and has_pipeline(structure.columns)[0]:
            found, of_rows = as_makespans(structure.columns, found, of_rows)
        method[rows] = of_rows
        _put(factors.slowest, rows, found.slowest)
        _put(factors.step, rows, found.step)
        factors.rest[rows] = found.rest
        factors.without[:, rows] = found.without
        factors.mean_se[rows] = found.mean_se
    return factors, method


def _empty(num_points: int) -> Slowest:
    return Slowest(
        mean=np.empty(num_points),
        quantiles=np.empty((num_points, len(PROBABILITIES))),
        variance=np.empty(num_points),
    )


def _put(slowest: Slowest, rows: NDArray[np.intp], found: Slowest) -> None:
    slowest.mean[rows] = found.mean
    slowest.quantiles[rows] = found.quantiles
    slowest.variance[rows] = found.variance


def _of_structure(columns: Columns, fleet: Fleet, asked: _Asked) -> tuple[Factors, Codes]:
    if not fleet.is_random and fleet.pipeline is None:
        return _steady(fleet), _everywhere(CLOSED_FORM, columns)
    # What hides behind what, and what a state that lasts does to a window, depends on the rest of
    # the step.
    key = columns.barrier_key if fleet.episodes is None and fleet.is_plain else columns.step_key
    if key is None:
        return _of_distinct(columns, fleet, asked)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    found, method = _of_distinct(columns.part(first), fleet.part(first), asked)
    return found.taken(inverse), method[inverse]


def _steady(fleet: Fleet) -> Factors:
    factor = _slowest_kind(fleet)
    without = np.repeat(fleet.step_at(slowest_class(fleet))[np.newaxis], len(CAUSES), axis=0)
    without[-1] = _nominal(fleet)
    step = fleet.step_at(factor)
    return Factors(
        slowest=_constant(factor),
        step=_constant(step),
        rest=_rest(fleet, step, lambda rest: rest.step_at(factor)),
        without=without,
        mean_se=np.zeros(fleet.num_points),
    )


def _slowest_kind(fleet: Fleet) -> Floats:
    """(points,) without chance the GPUs that a step does not wait for are the slowest too."""
    left_out = fleet.num_removed + fleet.num_backup
    return slowest_class(replace(fleet, num_removed=left_out))


def _constant(factor: Floats) -> Slowest:
    return Slowest(
        mean=factor,
        quantiles=np.repeat(factor[:, np.newaxis], len(PROBABILITIES), axis=1),
        variance=np.zeros(len(factor)),
    )


def _rest(fleet: Fleet, step: Floats, expected: Mean) -> Floats:
    """(points,) the step if the load were not hidden."""
    if fleet.rest_lines is None:
        return step
    return expected(replace(fleet, lines=fleet.rest_lines, rest_lines=None))


def _of_distinct(columns: Columns, fleet: Fleet, asked: _Asked) -> tuple[Factors, Codes]:
    if fleet.pipeline is not None:
        return piped_factors(columns, fleet, with_causes=asked.causes)
    if fleet.is_simulated:
        return _simulated(columns, fleet, asked), _everywhere(RECURSION, columns)
    averaged = with_round_means(fleet)
    alone = averaged.only_source if fleet.only_source is not None else None
    if alone is not None:
        return _alone(columns, fleet, alone), _everywhere(QUADRATURE, columns)
    if not fleet.stands_by_lastingly:
        exact = np.zeros(columns.num_points)
        has_lines = averaged.lines is not None
        # With lines, the quantiles of a step are those of the lines' values.
        slowest = pooled_slowest(
            replace(averaged, lines=None), with_quantiles=asked.quantiles and not has_lines
        )
        if not replace(fleet, common=None).is_random:
            # Of mean 1, and alone: the quadrature's last digits are no loss.
            slowest = replace(slowest, mean=_slowest_kind(fleet))
        step = slowest
        if has_lines:
            step = pooled_slowest(averaged, with_quantiles=asked.quantiles)
        factors = _factors(columns, fleet, (slowest, step), exact, asked)
        if averaged.lines is not None and averaged.episodes is not None:
            parts = pooled_parts(averaged)
            slowest = replace(slowest, mean=parts.slowest)
            factors = replace(factors, slowest=slowest, rest=parts.rest)
        return factors, _everywhere(QUADRATURE, columns)
    # Who stands by depends on the whole cluster: no product of ranks, hence no step quantiles.
    spread = _of_clusters(columns, averaged)
    step = mean_only(spread.mean)
    factors = _factors(columns, fleet, (step, step), spread.mean_se, asked)
    if averaged.lines is not None:
        barrier = _weighed_alike(columns, replace(averaged, lines=None), spread.mean)
        factors = replace(factors, slowest=mean_only(barrier))
        if averaged.rest_lines is not None and averaged.episodes is not None:
            rest = replace(averaged, lines=averaged.rest_lines, rest_lines=None)
            factors = replace(factors, rest=_weighed_alike(columns, rest, spread.mean))
    return factors, spread.method


def _weighed_alike(columns: Columns, part: Fleet, step: Floats) -> Floats:
    """(points,) mean of a part of the step, states of episodes weighed by the steps that they see.

    The weight of a state is that of 1 / (outside + step), and the step is the part and what is
    beyond it: that is as good as outside. The differences of means are then means of differences.
    """
    if part.episodes is None:
        return _of_clusters(columns, part).mean

    def excess(beyond: Floats) -> Floats:
        weighed = replace(part, outside_ratio=part.outside_ratio + beyond)
        missed: Floats = _of_clusters(columns, weighed).mean + beyond - step
        return missed

    # The excess rises by more than what is beyond, nearly on a straight line: by secants.
    before = np.zeros(part.num_points)
    at_before = excess(before)
    beyond = -at_before
    for _ in range(_SECANTS):
        at_beyond = excess(beyond)
        moved = beyond - before
        rise = np.ones_like(moved)
        np.divide(at_beyond - at_before, moved, out=rise, where=np.abs(moved) > _SETTLED)
        before, at_before = beyond, at_beyond
        beyond = beyond - at_beyond / np.maximum(rise, 1)
    return step - beyond


def _factors(
    columns: Columns,
    fleet: Fleet,
    slowest_and_step: tuple[Slowest, Slowest],
    mean_se: Floats,
    asked: _Asked,
) -> Factors:
    slowest, step = slowest_and_step

    def expected(rest: Fleet) -> Floats:
        return _expected(columns, rest)

    return Factors(
        slowest=slowest,
        step=step,
        rest=step.mean if fleet.is_simulated else _rest(fleet, step.mean, expected),
        without=without_causes(fleet, step, expected) if asked.causes else unknown_causes(fleet),
        mean_se=mean_se,
    )


def _nominal(fleet: Fleet) -> Floats:
    """(points,) what a step of equal GPUs takes, as a factor."""
    return fleet.step_at(np.ones(fleet.num_points))


def _simulated(columns: Columns, fleet: Fleet, asked: _Asked) -> Factors:
    """Where nobody waits for all: the slowest GPU is the one that is for good."""
    found = _recursion(columns, fleet)
    lasting = replace(fleet, **PER_STEP, lines=None, pattern=None, round_steps=None)
    slowest = mean_only(_expected(columns, lasting))
    # Chance never makes steps shorter (Jensen): the noise of the sampling may.
    nominal = _nominal(fleet)
    step = mean_only(np.maximum(found.mean - fleet.outside_ratio, nominal))
    return _factors(columns, fleet, (slowest, step), found.mean_se, asked)


def _recursion(columns: Columns, fleet: Fleet) -> Simulated:
    pattern = cast("Pattern", fleet.pattern)
    return simulate(fleet, pattern, seed=columns["seed"], draws=columns["draws"])


def _expected(columns: Columns, fleet: Fleet) -> Floats:
    """(points,) mean of the fleet's step, as a factor."""
    if fleet.is_simulated:
        of_step: Floats = _recursion(columns, fleet).mean - fleet.outside_ratio
        return of_step
    fleet = with_round_means(fleet)
    if fleet.stands_by_lastingly:
        return _of_clusters(columns, fleet).mean
    if fleet.is_random:
        return pooled_slowest(fleet, with_quantiles=False).mean
    return fleet.step_at(_slowest_kind(fleet))


def _of_clusters(columns: Columns, fleet: Fleet) -> Spread:
    """The spread over clusters; its mean needs neither the number of steps nor the window."""
    endless = np.full(columns.num_points, np.inf)
    return spread_of(
        fleet,
        seed=columns["seed"],
        draws=columns["draws"],
        num_steps=endless,
        window_hours=endless,
    )


def _everywhere(method: int, columns: Columns) -> Codes:
    return np.full(columns.num_points, method, dtype=np.int8)


def _alone(columns: Columns, fleet: Fleet, alone: Source) -> Factors:
    """Where one draw for each GPU is all there is."""
    averaged = with_round_means(fleet)
    slowest = _of_one_source(columns, averaged, alone)
    step = slowest if fleet.lines is None else _lined(averaged, alone, slowest, fleet.lines)
    without = np.repeat(step.mean[np.newaxis], len(CAUSES), axis=0)
    name = "transient" if averaged.persistent is None else "persistent"
    # Without variability the slowest GPU is the slowest kind, and never slower (Jensen).
    kinds = fleet.step_at(slowest_class(fleet))
    without[CAUSES.index(name) :] = np.minimum(kinds, step.mean)
    without[-1] = _nominal(fleet)
    return Factors(
        slowest=slowest,
        step=step,
        rest=_rest(fleet, step.mean, lambda rest: _expected(columns, rest)),
        without=without,
        mean_se=np.zeros(columns.num_points),
    )


def _lined(fleet: Fleet, source: Source, slowest: Slowest, lines: StepLines) -> Slowest:
    """E[h(S)]: of the first line a E[S] + b, and E[(S - s)+] for every rise of slope, at knot s."""
    if isinstance(source.law, Table) or len(lines.slope) > _FEW_LINES:
        return pooled_slowest(fleet)
    groups = Groups(law=source.law, num_gpus=fleet.num_gpus, mean=fleet.mean, shape=source.shape)
    mean = lines.slope[0] * slowest.mean + lines.offset[0]
    for rise, knot in zip(np.diff(lines.slope, axis=0), lines.knots, strict=True):
        mean += rise * excess_of(groups, knot)
    return Slowest(
        mean=np.maximum(mean, lines.value(slowest.mean)),
        quantiles=lines.value(slowest.quantiles.T).T,
        variance=np.full(len(mean), np.nan),
    )


def _of_one_source(columns: Columns, fleet: Fleet, source: Source) -> Slowest:
    """Where one draw for each GPU is all there is, long axes of sizes are cheap."""
    groups = Groups(law=source.law, num_gpus=fleet.num_gpus, mean=fleet.mean, shape=source.shape)
    if columns.size_key is None:
        return slowest_of(groups)
    return slowest_of_sizes(groups, columns.size_key)
