"""Long axes of cluster sizes: Chebyshev panels in the logarithm of the number of GPUs.

With everything else fixed, the slowest factor's mean and quantiles are smooth in log n, whatever
the family and the other groups: the mean is a convolution with the density of a Gumbel variable,
and the nearest singularity of a quantile of two groups lies pi away from the real axis. Panels two
wide with 13 points each give both to 1e-9, so that a thousand sizes cost as much as a hundred.
Source and measurements: `.github/decisions/0001-quadrature-of-the-maximum.md`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.slowest.barrier import PROBABILITIES, Groups, Slowest, slowest_of
from service.model.slowest.nodes import chebyshev

Ints = NDArray[np.int64]
Rows = NDArray[np.intp]

LOG_LARGEST_SIZE = np.log(1e7)
NUM_PANELS = 8
DEGREE = 12
# Fewer points than this in a panel are cheaper by their own quadrature.
WORTHWHILE_POINTS = 3 * (DEGREE + 1)
# The basis of so many points, (DEGREE + 1, points), stays in the second-level cache.
CHUNK_POINTS = 4096

_NO_PANEL = NUM_PANELS
_NUM_VALUES = 2 + len(PROBABILITIES)
_PANEL_WIDTH = LOG_LARGEST_SIZE / NUM_PANELS


class _Runs(NamedTuple):
    """Points sorted into runs of one key each: `order[bounds[i]:bounds[i + 1]]` is run i."""

    order: Rows
    bounds: Rows

    def rows(self, run: int) -> Rows:
        """The points of one run."""
        return self.order[self.bounds[run] : self.bounds[run + 1]]


def slowest_of_sizes(groups: Groups, size_key: Ints) -> Slowest:
    """As `barrier.slowest_of`, for points of which many differ only in the size of group 0.

    `size_key` (points,) is equal for points that differ in nothing else. Quantiles of a table are
    not smooth in the size; there, such points share most of the work anyway.
    """
    if isinstance(groups.law, Table):
        return slowest_of(groups)
    panel, place = _panels(groups.num_gpus[0])
    runs = _runs(size_key * (NUM_PANELS + 1) + panel)
    is_long = np.diff(runs.bounds) >= WORTHWHILE_POINTS
    is_long &= panel[runs.order[runs.bounds[:-1]]] != _NO_PANEL
    found = np.empty((_NUM_VALUES, len(place)))
    alone = runs.order[np.repeat(~is_long, np.diff(runs.bounds))]
    found[:, alone] = _direct(groups.part(alone))
    long_runs = np.flatnonzero(is_long)
    first = runs.order[runs.bounds[long_runs]]
    coefficients = _coefficients(groups.part(first), panel[first])
    for run, coefficient in zip(long_runs.tolist(), coefficients, strict=True):
        rows = runs.rows(run)
        for start in range(0, len(rows), CHUNK_POINTS):
            part = _span(rows[start : start + CHUNK_POINTS])
            found[:, part] = coefficient @ _basis(place[part])
    # Interpolated between variances that may be nearly nothing.
    variance = np.maximum(found[1], 0.0)
    return Slowest(mean=found[0], variance=variance, quantiles=found[2:].T)


def _panels(num_gpus: Floats) -> tuple[Ints, Floats]:
    """Which panel each size lies in, and where between its ends -1 and 1."""
    position = np.log(np.maximum(num_gpus, 1)) / _PANEL_WIDTH
    panel = np.minimum(position.astype(np.int64), NUM_PANELS - 1)
    place = 2 * (position - panel) - 1
    panel[num_gpus <= 1] = _NO_PANEL
    return panel, place


def _runs(key: Ints) -> _Runs:
    order = np.argsort(key, kind="stable")
    changes = np.flatnonzero(np.diff(key[order])) + 1
    return _Runs(order, np.concatenate([[0], changes, [len(key)]]))


def _span(rows: Rows) -> Rows | slice:
    """Neighbouring rows as a slice, which is read without a copy; others as they are."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


def _coefficients(groups: Groups, panel: Ints) -> Floats:
    """(panels, values, DEGREE + 1) of the panel that each point of `groups` stands for."""
    table = chebyshev(DEGREE)
    logs = (panel[:, np.newaxis] + (table.points + 1) / 2) * _PANEL_WIDTH
    repeated = groups.part(np.repeat(np.arange(len(panel)), DEGREE + 1))
    sizes = np.vstack([np.exp(logs).ravel()[np.newaxis], repeated.num_gpus[1:]])
    values = _direct(repeated._replace(num_gpus=sizes))
    by_panel = values.reshape(len(values), len(panel), DEGREE + 1).swapaxes(0, 1)
    coefficients: Floats = by_panel @ table.to_coefficients.T
    return coefficients


def _direct(groups: Groups) -> Floats:
    """(values, points) by the points' own quadratures: mean, variance, quantiles."""
    slowest = slowest_of(groups)
    return np.vstack([slowest.mean, slowest.variance, slowest.quantiles.T])


def _basis(place: Floats) -> Floats:
    """(DEGREE + 1, points) the Chebyshev polynomials."""
    basis = np.empty((DEGREE + 1, len(place)))
    basis[0] = 1
    basis[1] = place
    twice = 2 * place
    for degree in range(2, DEGREE + 1):
        np.multiply(twice, basis[degree - 1], out=basis[degree])
        basis[degree] -= basis[degree - 2]
    return basis
