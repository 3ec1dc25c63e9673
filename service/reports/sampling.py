"""Standard errors of sampled columns, and of differences between two of them."""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from service.model.results import COLUMN_NAMES
from service.reports.changes import nullable

Floats = NDArray[np.float64]
Sampling = Literal["exact", "independent", "common_seed"]

SUFFIX = "_se"
ERROR_OF = {
    name: f"{name}{SUFFIX}" for name in COLUMN_NAMES if f"{name}{SUFFIX}" in set(COLUMN_NAMES)
}
"""The column that holds the standard error of a column, where one is sampled."""
ERROR_COLUMNS = frozenset(ERROR_OF.values())

SamplingField = Annotated[
    Sampling,
    Meta(
        description="Where the standard errors come from: exact (nothing is sampled), independent "
        "(each side has its own draws), or common_seed (both have the same draws, so that the "
        "errors of a difference are upper bounds: common draws move both sides alike)."
    ),
]


class StandardError(Struct, frozen=True, kw_only=True):
    """Of one column; 0 where it is exact, null where a side does not have it."""

    past: float | None
    new: float | None
    difference: float | None


def difference_errors(
    past: Floats, new: Floats, difference: Floats, same_seed: NDArray[np.bool_]
) -> Floats:
    """(rows,) standard errors of differences from those of both sides; NaN where one is unknown.

    The root of the sum of squares: of independent draws exact, of common ones an upper bound. No
    difference at all between common draws has no error.
    """
    errors = np.hypot(past, new)
    return np.where(same_seed & (difference == 0) & np.isfinite(errors), 0.0, errors)


def samplings(past: Floats, new: Floats, same_seed: NDArray[np.bool_]) -> list[Sampling]:
    """How both sides of each row were sampled, from (columns, rows) of their errors."""
    drawn_past, drawn_new = (np.nan_to_num(side).max(axis=0, initial=0) > 0 for side in (past, new))
    common = (drawn_past & drawn_new & same_seed).tolist()
    drawn = (drawn_past | drawn_new).tolist()
    return [
        "common_seed" if in_common else "independent" if some else "exact"
        for in_common, some in zip(common, drawn, strict=True)
    ]


def error_rows(past: Floats, new: Floats, difference: Floats) -> list[StandardError]:
    """(rows,) errors as documents."""
    sides = (past.tolist(), new.tolist(), difference.tolist())
    return [
        StandardError(past=nullable(one), new=nullable(other), difference=nullable(both))
        for one, other, both in zip(*sides, strict=True)
    ]
