"""The maximum over ranks."""

import numpy as np

from service.model.laws.law import Floats

# Below so many numbers a row, NumPy's own reduction takes up to ten times as long.
_WIDE = 256
_FEW = 4


def highest(values: Floats) -> Floats:
    """(points, replications) of (ranks, points, replications)."""
    while len(values) > _FEW and values[0].size < _WIDE:
        half = -(-len(values) // 2)
        # The halves overlap by a rank where their number is odd: no matter for a maximum.
        values = np.maximum(values[:half], values[-half:])
    top: Floats = values.max(axis=0)
    return top
