"""Functions of one variable as polynomials on panels, another set for every point.

A point's panels are as long as its own spreads ask for, so eight coefficients a panel reach 1e-10
where one grid for all points would need thousands of pieces.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats

DEGREE = 8
_SHORTEST = 1e-300


class Panels(NamedTuple):
    """`kinds` functions on the same panels, for `points` points.

    edges         (panels + 1, points), ascending; panels may be empty
    coefficients  (degree + 1, kinds, panels * points), lowest power first, of a place from -1 to 1
    """

    edges: Floats
    coefficients: Floats

    def values(self, v: Floats) -> Floats:
        """(kinds, *v.shape) at v, (..., points); beyond the ends the value there."""
        num_points = self.edges.shape[1]
        # Bytes are the fastest to add up, while they can hold the sum.
        inner = self.edges[1:-1]
        number = np.zeros(v.shape, dtype=np.uint8 if len(inner) < 256 else np.uint16)
        for edge in inner:
            number += v >= edge
        panel = number.astype(np.intp)
        panel *= num_points
        panel += np.arange(num_points)
        left, right = self.edges[:-1], self.edges[1:]
        scale = 2 / np.maximum(right - left, _SHORTEST)
        place = v - left.ravel().take(panel, mode="clip")
        term = scale.ravel().take(panel, mode="clip")
        place *= term
        place -= 1
        np.clip(place, -1, 1, out=place)
        found = np.empty((self.coefficients.shape[1], *v.shape))
        for kind in range(len(found)):
            powers, value = self.coefficients[:, kind], found[kind]
            powers[-1].take(panel, out=value, mode="clip")
            for power in powers[-2::-1]:
                np.multiply(value, place, out=value)
                np.add(value, power.take(panel, out=term, mode="clip"), out=value)
        return found


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    """The places within a panel where the function is asked for, and values to coefficients."""
    angles = (np.arange(DEGREE + 1) + 0.5) * np.pi / (DEGREE + 1)
    places = -np.cos(angles)
    return places, np.linalg.inv(np.vander(places, increasing=True))


def nodes_of(edges: Floats) -> Floats:
    """(panels * nodes, points) where the functions must be known, ascending."""
    places, _ = _rule()
    left, right = edges[:-1, np.newaxis], edges[1:, np.newaxis]
    half = (places[:, np.newaxis] + 1) / 2
    inside = left + (right - left) * half
    return inside.reshape(-1, edges.shape[1])


def finer(edges: Floats, parts: int) -> Floats:
    """Every panel cut into equal parts."""
    within = (np.arange(parts) / parts)[:, np.newaxis]
    starts = edges[:-1, np.newaxis] + np.diff(edges, axis=0)[:, np.newaxis] * within
    return np.concatenate([starts.reshape(-1, edges.shape[1]), edges[-1:]])


def interpolated(edges: Floats, values: Floats) -> Panels:
    """The panels through values (kinds, panels * nodes, points) at `nodes_of(edges)`."""
    _, to_coefficients = _rule()
    num_kinds, _, num_points = values.shape
    by_panel = values.reshape(num_kinds, -1, DEGREE + 1, num_points)
    coefficients = np.einsum("cn,kpnx->ckpx", to_coefficients, by_panel)
    return Panels(edges, coefficients.reshape(DEGREE + 1, num_kinds, -1))
