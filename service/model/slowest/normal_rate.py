"""-log of the standard normal distribution function, from a table of cubic pieces.

It is the innermost function of the quadrature. SciPy's ndtr and a log1p take 40 ns an element
where NumPy has no AVX-512 to use, the table takes 7. A relative error d of this function moves an
expected maximum and its quantiles by about d cv / z.
"""

from functools import lru_cache

import numpy as np
import scipy

from service.model.slowest.cubics import Floats, cubic_pieces

LOWEST = -8.0
HIGHEST = 10.0
"""Beyond these the value at the end is used: the maximum is below the lower one with probability
1e-15 even for one GPU, and ten million of them exceed the upper one with probability 1e-16."""

PIECES_PER_SD = 256
"""Relative error 1e-10 up to z = 5.2, where ten million GPUs have their slowest, 2e-9 at z = 10."""

_NUM_PIECES = int((HIGHEST - LOWEST) * PIECES_PER_SD)
_LAST_PLACE = float(np.nextafter(_NUM_PIECES, 0))
# Rows at a time: three arrays of 1024 points stay in the cache together with the table.
_TILE_NODES = 11


@lru_cache(maxsize=1)
def _coefficients() -> Floats:
    """(4, pieces), see `cubic_pieces`."""
    return cubic_pieces(lambda z: -scipy.special.log_ndtr(z), LOWEST, HIGHEST, PIECES_PER_SD)


def add_normal_rate(slope: Floats, v: Floats, offset: Floats, weight: Floats, to: Floats) -> None:
    """Add -weight log Phi(slope v + offset); `v`, `to` (nodes, points), the others (points,).

    Tiles share their temporary arrays: giving memory of (nodes, points) back to the system and
    taking it again would cost twice as much as the arithmetic.
    """
    table = _coefficients()
    slope = slope * PIECES_PER_SD
    offset = (offset - LOWEST) * PIECES_PER_SD
    shape = (min(_TILE_NODES, len(v)), v.shape[1])
    scratch, pieces = np.empty((3, *shape)), np.empty(shape, dtype=np.intp)
    for start in range(0, len(v), _TILE_NODES):
        tile = slice(start, start + _TILE_NODES)
        place, term, rate = scratch[:, : len(v[tile])]
        piece = pieces[: len(v[tile])]
        np.multiply(v[tile], slope, out=place)
        place += offset
        np.clip(place, 0, _LAST_PLACE, out=place)
        np.floor(place, out=term)
        np.copyto(piece, term, casting="unsafe")
        place -= term
        # `clip` is the mode without a copy; every piece is within the table already.
        np.take(table[3], piece, mode="clip", out=rate)
        for power in (2, 1, 0):
            rate *= place
            rate += np.take(table[power], piece, mode="clip", out=term)
        rate *= weight
        to[tile] += rate


def normal_rate_and_slope(z: Floats) -> tuple[Floats, Floats]:
    """-log Phi(z) and its derivative; the latter to about 1e-6, enough for Newton's method."""
    place = np.clip((z - LOWEST) * PIECES_PER_SD, 0, _LAST_PLACE)
    piece = place.astype(np.intp)
    place -= piece
    c0, c1, c2, c3 = (row.take(piece, mode="clip") for row in _coefficients())
    slope = (3 * c3 * place + 2 * c2) * place + c1
    rate = ((c3 * place + c2) * place + c1) * place + c0
    return rate, slope * PIECES_PER_SD
