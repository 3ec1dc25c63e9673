"""The distributions by name and by code.

A family is a file of `laws/`: its class is at once the declaration (decoding, bounds, storage, the
API's schema) and the mathematics, `laws/law.py` says which. One more family is that file, and its
name in `Distribution`.
"""

from typing import get_args

import numpy as np

from service.model.laws.empirical import Empirical, Table, observed_share, table_of
from service.model.laws.exponential import Exponential
from service.model.laws.gamma import Gamma
from service.model.laws.law import Cv, Floats, Law
from service.model.laws.lognormal import LogNormal
from service.model.laws.normal import MAX_CV_NORMAL, Normal
from service.model.laws.pareto import Pareto
from service.model.laws.shifted_gamma import ShiftedGamma, lowest
from service.model.laws.weibull import Weibull

__all__ = [
    "EMPIRICAL",
    "FAMILIES",
    "LAWS",
    "MAX_CV_NORMAL",
    "Cv",
    "Distribution",
    "Empirical",
    "Exponential",
    "Floats",
    "Gamma",
    "Law",
    "LogNormal",
    "Normal",
    "Pareto",
    "ShiftedGamma",
    "Table",
    "Weibull",
    "law_and_shape",
    "law_of",
    "log_cdf",
    "lowest",
    "observed_share",
    "sample",
    "table_of",
]

Distribution = (
    Normal | LogNormal | Gamma | ShiftedGamma | Exponential | Weibull | Pareto | Empirical
)

LAWS: tuple[Law, ...] = (Normal, LogNormal, Gamma, ShiftedGamma, Exponential, Weibull, Pareto)
"""Those without a table, by code - 1."""
FAMILIES: tuple[str, ...] = (
    "none",
    *(str(kind.__struct_config__.tag) for kind in get_args(Distribution)),
)
"""Names by code: a column of families holds positions in this tuple, so it only ever grows."""

EMPIRICAL = FAMILIES.index("empirical")


def law_of(family: int, table: tuple[float, ...] | None = None) -> Law:
    """The law with this code; 0 ("none") has none. `table` is the quantiles of an empirical one."""
    if family == EMPIRICAL and table is not None:
        return table_of(table)
    if not 1 <= family <= len(LAWS):
        raise ValueError(f"family: code {family} is no distribution, they are 1 … {len(LAWS)}")
    return LAWS[family - 1]


def law_and_shape(source: Distribution) -> tuple[Law, Floats]:
    """The law of a declared distribution and its (2, 1) shape; the cv may be 0."""
    if isinstance(source, Empirical):
        table = table_of(source.quantiles)
        return table, np.array([[table.cv], [0.0]])
    skew = source.skew if isinstance(source, ShiftedGamma) else 0.0
    return type(source), np.array([[source.cv], [skew]])


def log_cdf(law: Law, x: Floats, shape: Floats) -> Floats:
    """Logarithm of P(X <= x), (..., points); -36.7 or so where it is lower."""
    return np.negative(law.rate(x, shape))


def sample(law: Law, rng: np.random.Generator, shape: Floats, size: tuple[int, ...]) -> Floats:
    """Independent draws, `size` of (..., points), as quantiles of normal scores."""
    return law.at_score(rng.standard_normal(size), shape)
