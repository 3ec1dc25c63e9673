"""GPUs of two classes on random places: the mean over placements, exactly.

With B(z) = sum over k of C(g, k) q^k (1 - q)^(g - k) P(block with k slow GPUs <= t) z^k, the mean
over all placements of K slow GPUs among N is the coefficient of z^K in the product of B over the
blocks, over that of a binomial. It is read off on the unit circle; with q = K / N the product lies
around z^K, so that ten standard deviations of angles are enough.
Source: generating functions [textbook]; compared with enumeration in the tests.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.laws.law import Floats

MOST_ANGLES = 200
"""More slow GPUs than these can tell apart stay with expected compositions."""
MOST_BLOCKS = 64
"""So do more blocks where there are many states: two slow GPUs are seldom in one of them."""
# A state is wrong by less than 1 %, so that a rare one does not show.
_RARE = 1e-7
_LEAST_ANGLES, _ANGLES_PER_SD = 12, 10


def angles_needed(num_gpus: Floats) -> Floats:
    """(points,) for num_gpus (2, points); infinite where these are no whole numbers."""
    total = num_gpus.sum(axis=0)
    sd = np.sqrt(num_gpus[0] * num_gpus[1] / total)
    angles = np.minimum(total + 1, np.ceil(_LEAST_ANGLES + _ANGLES_PER_SD * sd))
    whole = (num_gpus == np.rint(num_gpus)).all(axis=0)
    needed: Floats = np.where(whole, angles, np.inf)
    return needed


def is_worth_it(num_gpus: Floats, weight: Floats, block_size: int) -> NDArray[np.bool_]:
    """(points,) whether a state of that weight in time is worth more than expected numbers."""
    few = angles_needed(num_gpus) <= MOST_ANGLES
    blocks = num_gpus.sum(axis=0) / block_size
    worth: NDArray[np.bool_] = few & ((weight == 1) | (blocks <= MOST_BLOCKS) & (weight > _RARE))
    return worth


def below_over_placements(
    below: Floats, compositions: Floats, num_gpus: Floats, block_size: int
) -> Floats:
    """P(slowest <= v), (rows, points), to 1e-13 or so.

    below         (blocks, rows, points) of one block of each composition
    compositions  (blocks, 2) nominal and slow GPUs; those of a last, smaller block among them
    num_gpus      (2, points) whole numbers
    """
    total, slow = num_gpus.sum(axis=0), num_gpus[1]
    share = slow / total
    num_angles = int(angles_needed(num_gpus).max())
    number = np.floor(total / block_size + 1e-9)
    of_size = compositions.sum(axis=1)
    summed = np.zeros(below.shape[1:])
    for angle in range(num_angles // 2 + 1):
        turn = 2 * np.pi * angle / num_angles
        product = np.exp(-1j * turn * slow) * np.ones(below.shape[1:])
        for size in np.unique(of_size).tolist():
            rows = of_size == size
            mixed = _generated(below[rows], compositions[rows, 1], size, share, turn)
            product *= np.power(mixed, number if size == block_size else 1)
        # Angles beyond a half turn mirror these.
        summed += product.real * (1 if angle in (0, num_angles / 2) else 2)
    mean: Floats = summed / (num_angles * binomial(slow, total, share))
    return mean


def _generated(
    below: Floats, slow: Floats, size: float, share: Floats, turn: float
) -> NDArray[np.complex128]:
    """B at a place of the unit circle, (rows, points)."""
    found = np.zeros(below.shape[1:], dtype=np.complex128)
    for of_block, number in zip(below, slow.tolist(), strict=True):
        found += of_block * binomial(number, size, share) * np.exp(1j * turn * number)
    return found


def binomial(number: Floats | float, num_gpus: Floats | float, probability: Floats) -> Floats:
    """P(so many of the GPUs), by broadcasting."""
    rest = num_gpus - np.asarray(number)
    ways = -special.betaln(rest + 1, number + 1) - np.log1p(num_gpus)
    logs = ways + special.xlogy(number, probability) + special.xlog1py(rest, -probability)
    found: Floats = np.exp(logs)
    return found
