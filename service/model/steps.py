"""The slowest factor of a step at every point, and without one cause after the other."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.model.causes import CAUSES, Factors, factors_of
from service.model.clusters.spread import Spread, spread_of
from service.model.columns import Columns, Floats
from service.model.fleet import Fleet, Source
from service.model.fleets import Structure
from service.model.results import METHODS
from service.model.slowest.barrier import PROBABILITIES, Groups, Slowest, slowest_of
from service.model.slowest.pooled import pooled_slowest
from service.model.slowest.removal import slowest_class
from service.model.slowest.sizes import slowest_of_sizes

CLOSED_FORM = METHODS.index("closed_form")
QUADRATURE = METHODS.index("quadrature")

Codes = NDArray[np.int8]


def steps_of(structures: Sequence[Structure]) -> tuple[Factors, Codes]:
    """Factors (…, points) and methods (points,), worked out once for points that share them."""
    num_points = sum(len(structure.rows) for structure in structures)
    slowest = Slowest(
        mean=np.empty(num_points),
        quantiles=np.empty((num_points, len(PROBABILITIES))),
        variance=np.empty(num_points),
    )
    without = np.empty((len(CAUSES), num_points))
    mean_se = np.empty(num_points)
    method = np.empty(num_points, dtype=np.int8)
    for structure in structures:
        rows = structure.rows
        found, method[rows] = _of_structure(structure.columns, structure.fleet)
        slowest.mean[rows] = found.slowest.mean
        slowest.quantiles[rows] = found.slowest.quantiles
        slowest.variance[rows] = found.slowest.variance
        without[:, rows] = found.without
        mean_se[rows] = found.mean_se
    return Factors(slowest=slowest, without=without, mean_se=mean_se), method


def _of_structure(columns: Columns, fleet: Fleet) -> tuple[Factors, Codes]:
    if not fleet.is_random:
        return _steady(fleet), _everywhere(CLOSED_FORM, columns)
    # What a state that lasts does to a window depends on the rest of the step.
    key = columns.barrier_key if fleet.episodes is None else columns.step_key
    if key is None:
        return _of_distinct(columns, fleet)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    found, method = _of_distinct(columns.part(first), fleet.part(first))
    return found.taken(inverse), method[inverse]


def _steady(fleet: Fleet) -> Factors:
    # Without chance the GPUs that a step does not wait for are the slowest too.
    left_out = fleet.num_removed + fleet.num_backup
    factor = slowest_class(replace(fleet, num_removed=left_out))
    without = np.repeat(slowest_class(fleet)[np.newaxis], len(CAUSES), axis=0)
    without[-1] = 1.0
    quantiles = np.repeat(factor[:, np.newaxis], len(PROBABILITIES), axis=1)
    return Factors(
        slowest=Slowest(mean=factor, quantiles=quantiles, variance=np.zeros(fleet.num_points)),
        without=without,
        mean_se=np.zeros(fleet.num_points),
    )


def _of_distinct(columns: Columns, fleet: Fleet) -> tuple[Factors, Codes]:
    alone = fleet.only_source
    if alone is not None:
        return _alone(columns, fleet, alone), _everywhere(QUADRATURE, columns)
    if not fleet.stands_by_lastingly:
        exact = np.zeros(columns.num_points)
        slowest = pooled_slowest(fleet)
        if not replace(fleet, common=None).is_random:
            # Of mean 1, and alone: the quadrature's last digits are no loss.
            slowest = replace(slowest, mean=slowest_class(fleet))
        factors = factors_of(fleet, slowest, exact, _pooled)
        return factors, _everywhere(QUADRATURE, columns)
    # Who stands by depends on the whole cluster: no product of ranks, hence no step quantiles.
    spread = _of_clusters(columns, fleet)
    unknown = np.full((columns.num_points, len(PROBABILITIES)), np.nan)
    slowest = Slowest(mean=spread.mean, quantiles=unknown, variance=unknown[:, 0])
    factors = factors_of(
        fleet, slowest, spread.mean_se, lambda rest: _expected_of_clusters(columns, rest)
    )
    return factors, spread.method


def _expected_of_clusters(columns: Columns, fleet: Fleet) -> Floats:
    return _of_clusters(columns, fleet).mean if fleet.stands_by_lastingly else _pooled(fleet)


def _pooled(fleet: Fleet) -> Floats:
    return pooled_slowest(fleet).mean if fleet.is_random else slowest_class(fleet)


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
    slowest = _of_one_source(columns, fleet, alone)
    without = np.repeat(slowest.mean[np.newaxis], len(CAUSES), axis=0)
    name = "transient" if fleet.persistent is None else "persistent"
    # Without variability the slowest GPU is the slowest kind, and never slower (Jensen).
    without[CAUSES.index(name) :] = np.minimum(slowest_class(fleet), slowest.mean)
    without[-1] = 1.0
    return Factors(slowest=slowest, without=without, mean_se=np.zeros(columns.num_points))


def _of_one_source(columns: Columns, fleet: Fleet, source: Source) -> Slowest:
    """Where one draw for each GPU is all there is, long axes of sizes are cheap."""
    groups = Groups(law=source.law, num_gpus=fleet.num_gpus, mean=fleet.mean, shape=source.shape)
    if columns.size_key is None:
        return slowest_of(groups)
    return slowest_of_sizes(groups, columns.size_key)
