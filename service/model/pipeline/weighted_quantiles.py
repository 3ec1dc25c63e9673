"""Quantiles of values with weights."""

from collections.abc import Sequence

import numpy as np

from service.model.laws.law import Floats

# Sums of probabilities are wrong by less.
_ROUND_OFF = 1e-12


def weighted_quantiles(
    values: Floats, weights: Floats, probabilities: Sequence[float] | Floats
) -> Floats:
    """(probabilities,) the smallest value up to which there is so much of the weight, sum 1."""
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(weights[order])
    place = np.searchsorted(up_to, np.asarray(probabilities) - _ROUND_OFF)
    found: Floats = values[order][np.minimum(place, len(values) - 1)]
    return found
