"""Random clusters: the ranks in slowness of their slowest units.

The j-th slowest of n units has -log U_(j) = E_1 / n + … + E_j / (n - j + 1) with independent
exponential E (Rényi, 1953), U the distribution function of the slowness at that unit's: exact for
every n. The others, the bulk, are all those with -log U above a limit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.cluster_draws import (
    PLACES,
    Clusters,
    exponentials,
    inside_uniforms,
)
from service.model.laws.law import Floats

MAX_WHOLE = 40
"""Classes of up to so many units are drawn whole."""
NUM_TOP = 16
"""Of larger ones, about so many units (a binomial number) are drawn."""
# The number drawn exceeds its mean by more than so many standard deviations in one of 1e5 clusters.
_SPARE_SD = 4.5
# It falls short of the number to remove by so many in none.
_SAFE_SD = 6.0
# A unit with U = e^-30 is as good as none, and has a finite score.
_LARGEST_RANK = 30.0


class Drawn(NamedTuple):
    """The slowest units of one class, an entry for each; slowest rows first.

    log_rank  (entries,) log(-log U)
    cluster   (entries,) counted from the first of these clusters
    row       (entries,) 0 for the cluster's slowest of the class
    number    (clusters,) of them
    limit     units with -log U above it were not drawn; infinite if all were
    """

    log_rank: Floats
    cluster: NDArray[np.intp]
    row: NDArray[np.intp]
    number: NDArray[np.intp]
    limit: float


def drawn_units(
    clusters: Clusters, group: int, num_units: float, num_removed: int = 0, before: float = 0.0
) -> Drawn:
    """The slowest units of a class, and at least `num_removed` of them.

    `num_units` may be an expectation; there are `before` expected units of earlier classes. Of
    classes that are drawn whole every cluster then has a whole number.
    """
    limit, rows = _limit(num_units, num_removed)
    whole = np.isinf(limit) and num_units % 1 > 0
    number = _whole_numbers(clusters, num_units, before) if whole else np.full(1, num_units)
    rank = _sums(exponentials(clusters, group, rows), number)
    num_clusters = rank.shape[1]
    drawn = np.flatnonzero(rank < limit)
    row, cluster = np.divmod(drawn, num_clusters)
    return Drawn(
        log_rank=np.log(rank.ravel()[drawn]),
        cluster=cluster,
        row=row,
        number=np.bincount(cluster, minlength=num_clusters),
        limit=limit,
    )


def num_rows(num_units: float, num_removed: int) -> int:
    """The largest number of units that are drawn of a cluster."""
    return _limit(num_units, num_removed)[1]


def _limit(num_units: float, num_removed: int) -> tuple[float, int]:
    """Of -log U, and the number of rows that stay below it."""
    top = NUM_TOP + num_removed + _SAFE_SD * num_removed**0.5
    rows = int(top + _SPARE_SD * top**0.5 + 2)
    if num_units <= max(MAX_WHOLE, rows if num_removed else 0):
        return np.inf, int(np.ceil(num_units))
    return float(-np.log1p(-top / num_units)), min(rows, int(num_units))


def _whole_numbers(clusters: Clusters, num_units: float, before: float) -> Floats:
    """(clusters,) whole numbers of that expectation; over all classes they sum up to the total.

    Systematic sampling: how many of the places u, u + 1, u + 2 … lie in the class's stretch, with
    one uniform u for a cluster (Madow and Madow, 1944).
    """
    shift = inside_uniforms(clusters, PLACES, range(1))[0]
    # Sums of expectations are whole but for round-off.
    start, stop = round(before, 9), round(before + num_units, 9)
    numbers: Floats = np.floor(stop + shift) - np.floor(start + shift)
    return numbers


def _sums(exponentials: Floats, num_units: Floats) -> Floats:
    """(rows, clusters) -log U, the slowest unit first; infinite where there is no such unit."""
    left = num_units - np.arange(len(exponentials))[:, np.newaxis]
    with np.errstate(divide="ignore"):
        rank = exponentials / np.maximum(left, 0.0)
    # Row by row: NumPy's cumsum along the first axis takes several times as long.
    for row in range(1, len(rank)):
        rank[row] += rank[row - 1]
    return np.where(left > 0, np.minimum(rank, _LARGEST_RANK), np.inf)
