"""Fourier transforms of masses at any places."""

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from service.model.laws.law import Floats

_SPREAD = 14
"""Grid points to either side over which a mass is spread: leaves 1e-13."""


def transform_of(place: Floats, mass: Floats, num_modes: int) -> NDArray[np.complex128]:
    """The sum of mass exp(2 pi i k place) for k from 0 to `num_modes` - 1; `place` counts turns.

    Each mass is spread as a Gaussian over an even grid, and the spreading divided out. Source:
    Greengard and Lee, SIAM Review 46, 2004.
    """
    size = 4 * num_modes
    # The Gaussian exp(-x^2 / 4 tau), x in radians, that is as small at the last point as the
    # aliases of the last mode.
    tau = np.pi * _SPREAD / (3 * (2 * num_modes) ** 2)
    position = (place % 1) * size
    nearest = np.floor(position)
    grid = np.zeros(size)
    for offset in range(-_SPREAD + 1, _SPREAD + 1):
        distance = (position - nearest - offset) * (2 * np.pi / size)
        spread = mass * np.exp(-distance * distance / (4 * tau))
        index = (nearest.astype(np.int64) + offset) % size
        grid += np.bincount(index, weights=spread, minlength=size)
    modes = np.arange(num_modes)
    # The transform has the other sign; the masses are real.
    found: NDArray[np.complex128] = np.conj(fft.rfft(grid)[:num_modes])
    found *= np.sqrt(np.pi / tau) / size * np.exp(modes * modes * tau)
    return found
