"""The one door into the room: columns in, columns out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.answer_parts import Wanted, empty_columns
from service.model.columns import Columns
from service.model.exchange_columns import exchange_columns
from service.model.failures import failure_columns, time_ratios
from service.model.fleets import structures_of
from service.model.losses import loss_columns
from service.model.nominal_steps import nominal_of
from service.model.pipeline_columns import pipeline_columns
from service.model.rank_counts import rank_count_columns
from service.model.results import COLUMN_NAMES
from service.model.rulebook.rules_of_laws import extrapolation
from service.model.rules import failures
from service.model.spreads import spread_columns
from service.model.steps import steps_of
from service.model.synchronization_gain import gain_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Output columns by name, (points,) each; `failure` (points,) is a position in FAILURES.

    Failed points hold NaN, and -1 in enum columns.
    """

    columns: dict[str, NDArray[Any]]
    failure: NDArray[np.int8]


def evaluate(
    columns: Columns,
    *,
    with_spread: bool = True,
    with_causes: bool = True,
    with_quantiles: bool = True,
) -> Results:
    """Evaluate all points; a point that breaks a rule fails alone.

    The columns of what is left out (`answer_parts.PART_COLUMNS`) stay empty and take no time; all
    others are the same.
    """
    wanted = Wanted(spread=with_spread, causes=with_causes, quantiles=with_quantiles)
    return _evaluate(columns, wanted)


def _evaluate(columns: Columns, wanted: Wanted) -> Results:
    failure = failures(columns)
    sound = np.flatnonzero(failure == 0)
    if len(sound) < columns.num_points:
        part = _evaluate(columns.part(sound), wanted)
        return _scattered(part, sound, failure)
    ratios = time_ratios(columns)
    # First: what is found here need not be found again for each structure.
    nominal = nominal_of(columns)
    structures = structures_of(columns)
    factors, method = steps_of(
        structures, with_causes=wanted.causes, with_quantiles=wanted.quantiles
    )
    found: dict[str, NDArray[Any]] = dict(loss_columns(columns, factors, nominal, ratios.share))
    found |= exchange_columns(columns, nominal, found)
    found |= pipeline_columns(columns, structures, with_quantiles=wanted.quantiles)
    found |= gain_columns(columns, found["step_mean_ms"])
    if wanted.spread:
        found |= spread_columns(columns, structures, factors.step, ratios.share)
    found |= failure_columns(ratios)
    found |= rank_count_columns(columns)
    found["is_extrapolated"] = extrapolation(columns)
    found["method"] = method
    found |= _no_remedy(columns.num_points)
    found |= empty_columns(wanted, columns.num_points)
    return Results(columns={name: found[name] for name in COLUMN_NAMES}, failure=failure)


def _no_remedy(num_points: int) -> dict[str, NDArray[Any]]:
    """What an ordinary point has in the columns that `remedy_gains` fills."""
    return {
        "remedy": np.full(num_points, -1, dtype=np.int8),
        "remedy_count": np.full(num_points, np.nan),
        "gpu_hours_given_back": np.full(num_points, np.nan),
    }


def _scattered(results: Results, rows: NDArray[np.intp], failure: NDArray[np.int8]) -> Results:
    columns: dict[str, NDArray[Any]] = {}
    for name, values in results.columns.items():
        empty: Any = -1 if values.dtype == np.int8 else np.nan
        columns[name] = np.full(len(failure), empty, dtype=values.dtype)
        columns[name][rows] = values
    return Results(columns=columns, failure=failure)
