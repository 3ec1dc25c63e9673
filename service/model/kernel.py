"""The one door into the room: columns in, columns out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.barrier import SMALLEST_CV, Groups, Slowest, slowest_of
from service.model.columns import Columns
from service.model.distributions import FAMILIES, law_of
from service.model.losses import loss_columns, slowest_nominal
from service.model.results import COLUMN_NAMES, METHODS
from service.model.rules import failures
from service.model.sizes import slowest_of_sizes

NUM_QUANTILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Output columns by name, (points,) each; `failure` (points,) is a position in FAILURES.

    Failed points hold NaN, and -1 in enum columns.
    """

    columns: dict[str, NDArray[Any]]
    failure: NDArray[np.int8]


def evaluate(columns: Columns) -> Results:
    """Evaluate all points; a point that breaks a rule fails alone."""
    failure = failures(columns)
    sound = np.flatnonzero(failure == 0)
    if len(sound) < columns.num_points:
        return _scattered(evaluate(columns.part(sound)), sound, failure)
    random = (columns.transient_family != 0) & (columns.transient_cv > 0)
    found: dict[str, NDArray[Any]] = dict(loss_columns(columns, _slowest(columns, random)))
    found["method"] = np.where(
        random, METHODS.index("quadrature"), METHODS.index("closed_form")
    ).astype(np.int8)
    return Results(columns={name: found[name] for name in COLUMN_NAMES}, failure=failure)


def _slowest(columns: Columns, random: NDArray[np.bool_]) -> Slowest:
    """The slowest factor of every point, worked out once for points that share it."""
    if columns.barrier_key is None:
        return _slowest_of_distinct(columns, random)
    _, first, inverse = np.unique(columns.barrier_key, return_index=True, return_inverse=True)
    distinct = _slowest_of_distinct(columns.part(first), random[first])
    return Slowest(mean=distinct.mean[inverse], quantiles=distinct.quantiles[inverse])


def _slowest_of_distinct(columns: Columns, random: NDArray[np.bool_]) -> Slowest:
    family = columns.transient_family
    if len(family) > 0 and random.all() and (family == family[0]).all():
        return _slowest_of_family(columns, int(family[0]))
    mean = slowest_nominal(columns)
    quantiles = np.repeat(mean[:, np.newaxis], NUM_QUANTILES, axis=1)
    for code in range(1, len(FAMILIES)):
        rows = np.flatnonzero(random & (family == code))
        if len(rows):
            slowest = _slowest_of_family(columns.part(rows), code)
            mean[rows] = slowest.mean
            quantiles[rows] = slowest.quantiles
    return Slowest(mean=mean, quantiles=quantiles)


def _slowest_of_family(columns: Columns, family: int) -> Slowest:
    """Of points with one family; their cv is positive."""
    groups = Groups(
        law=law_of(family),
        num_gpus=np.vstack([columns.num_nominal, columns.slow_count.T]).astype(np.float64),
        mean=np.vstack([np.ones(columns.num_points), 1 / columns.slow_speed.T]),
        shape=np.maximum(columns.transient_cv, SMALLEST_CV)[np.newaxis],
    )
    if columns.size_key is None:
        return slowest_of(groups)
    return slowest_of_sizes(groups, columns.size_key)


def _scattered(results: Results, rows: NDArray[np.intp], failure: NDArray[np.int8]) -> Results:
    columns: dict[str, NDArray[Any]] = {}
    for name, values in results.columns.items():
        empty: Any = -1 if values.dtype == np.int8 else np.nan
        columns[name] = np.full(len(failure), empty, dtype=values.dtype)
        columns[name][rows] = values
    return Results(columns=columns, failure=failure)
