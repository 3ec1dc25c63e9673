"""Sums over a cluster's units of functions of one number of the unit, for many functions at once.

The numbers are put on an even grid by cubic interpolation; then the sum over units is a product
with one matrix, whatever the function.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats

_STENCIL = 4
_LARGEST_GRID = 1200


class EntrySums(NamedTuple):
    """grid (places,) ascending; matrix (clusters, places): weights of a function's values there."""

    grid: Floats
    matrix: Floats


def entry_sums(
    place: Floats, cluster: NDArray[np.intp], num_clusters: int, distance: float
) -> EntrySums:
    """Of entries with numbers `place` in these clusters, on a grid at most `distance` apart."""
    low, high = (float(place.min()), float(place.max())) if len(place) else (0.0, 0.0)
    num = int(np.clip((high - low) / distance, 1, _LARGEST_GRID)) + _STENCIL - 1
    grid = np.linspace(low, max(high, low + 1e-6), num)
    inside = (place - low) / (grid[1] - grid[0])
    first = np.clip(inside.astype(np.intp) - 1, 0, num - _STENCIL)
    inside -= first
    cell = cluster * num + first
    matrix = np.zeros(num_clusters * num)
    for offset, weight in enumerate(_lagrange(inside)):
        matrix += np.bincount(cell + offset, weight, len(matrix))
    return EntrySums(grid, matrix.reshape(num_clusters, num))


def _lagrange(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Weights of the values at 0, 1, 2, 3 in the cubic's value at x."""
    a, b, c = x - 1, x - 2, x - 3
    bc, xa = b * c, x * a
    return a * bc / -6, x * bc / 2, xa * c / -2, xa * b / 6
