"""A function of one variable as polynomials on panels of any lengths."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats

DEGREE = 10
_NEWTON_STEPS = 60
_CONVERGED = 1e-15


@lru_cache(maxsize=1)
def _rule() -> tuple[Floats, Floats]:
    """Chebyshev's places in [-1, 1], and the matrix from values there to powers."""
    places = -np.cos((np.arange(DEGREE + 1) + 0.5) * np.pi / (DEGREE + 1))
    return places, np.linalg.inv(np.vander(places, increasing=True))


class Pieces(NamedTuple):
    """Beyond its ends the function keeps its values there.

    edges   (panels + 1,) rising
    powers  (degree + 1, panels) coefficients of a place from -1 to 1, lowest power first
    """

    edges: Floats
    powers: Floats

    def at(self, x: Floats) -> Floats:
        """The function, x.shape."""
        panel, place, _ = self._places(x)
        value: Floats = self.powers[-1].take(panel)
        for power in self.powers[-2::-1]:
            value *= place
            value += power.take(panel)
        return value

    def with_slope(self, x: Floats) -> tuple[Floats, Floats]:
        """The function and its derivative; the latter goes on beyond the ends."""
        panel, place, scale = self._places(x)
        value = self.powers[-1].take(panel)
        slope = np.zeros_like(value)
        for power in self.powers[-2::-1]:
            slope = slope * place + value
            value = value * place + power.take(panel)
        return value, slope * scale

    def inverse(self, value: Floats) -> Floats:
        """Where a rising function has these values, by Newton's steps within the panels."""
        # Round-off may turn a plateau's edges round.
        at_edges = np.maximum.accumulate(self.at(self.edges))
        panel = np.searchsorted(at_edges, value, side="right") - 1
        panel = np.clip(panel, 0, len(self.edges) - 2)
        left, right = self.edges[panel], self.edges[panel + 1]
        below, above = at_edges[panel], at_edges[panel + 1]
        part = (value - below) / np.maximum(above - below, np.finfo(np.float64).tiny)
        x: Floats = left + (right - left) * np.clip(part, 0, 1)
        for _ in range(_NEWTON_STEPS):
            found, slope = self.with_slope(x)
            left = np.where(found < value, x, left)
            right = np.where(found < value, right, x)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                moved = x + (value - found) / slope
            moved = np.where((moved >= left) & (moved <= right), moved, (left + right) / 2)
            far = np.abs(moved - x) > _CONVERGED * (np.abs(x) + (self.edges[-1] - self.edges[0]))
            x = moved
            if not far.any():
                break
        return x

    def _places(self, x: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
        panel = np.searchsorted(self.edges[1:-1], x, side="right")
        scale = (2 / np.diff(self.edges)).take(panel)
        place = (x - self.edges.take(panel)) * scale - 1
        return panel, np.clip(place, -1, 1, out=place), scale


def nodes_of(edges: Floats) -> Floats:
    """(panels * (degree + 1),) where a function must be known, rising."""
    places, _ = _rule()
    left, right = edges[:-1, np.newaxis], edges[1:, np.newaxis]
    nodes: Floats = left + (right - left) * ((places + 1) / 2)
    return nodes.ravel()


def through(edges: Floats, values: Floats) -> Pieces:
    """The polynomials through the values at `nodes_of(edges)`."""
    _, to_powers = _rule()
    powers: Floats = to_powers @ values.reshape(-1, DEGREE + 1).T
    return Pieces(edges, powers)
