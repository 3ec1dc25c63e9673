"""The distributions by name and by code.

A family is a file of `laws/`: its class is at once the declaration (decoding, bounds, storage, the
API's schema) and the mathematics, `laws/law.py` says which. One more family is that file, and its
name in `Distribution`.
"""

from typing import get_args

import numpy as np

from service.model.laws.gamma import Gamma
from service.model.laws.law import Cv, Floats, Law
from service.model.laws.lognormal import LogNormal
from service.model.laws.normal import MAX_CV_NORMAL, Normal

__all__ = [
    "FAMILIES",
    "LAWS",
    "MAX_CV_NORMAL",
    "Cv",
    "Distribution",
    "Floats",
    "Gamma",
    "Law",
    "LogNormal",
    "Normal",
    "law_of",
    "log_cdf",
]

Distribution = Normal | LogNormal | Gamma

LAWS: tuple[type[Normal] | type[LogNormal] | type[Gamma], ...] = get_args(Distribution)
FAMILIES: tuple[str, ...] = ("none", *(str(law.__struct_config__.tag) for law in LAWS))
"""Names by code: a column of families holds positions in this tuple, so it only ever grows."""


def law_of(family: int) -> Law:
    """The law with this code; 0 ("none") has none."""
    if not 1 <= family <= len(LAWS):
        raise ValueError(f"family: code {family} is no distribution, they are 1 … {len(LAWS)}")
    return LAWS[family - 1]


def log_cdf(law: Law, x: Floats, shape: Floats) -> Floats:
    """Logarithm of P(X <= x), (..., points); -36.7 or so where it is lower."""
    return np.negative(law.rate(x, shape))
