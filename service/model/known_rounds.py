"""Of which steps the mean over a round has a known distribution. See `laws/averages.py`."""

import numpy as np
from numpy.typing import NDArray

from service.model.active import is_active, spikes_are_active
from service.model.columns import Columns, Floats
from service.model.laws.averages import are_known
from service.model.sources import source_of, spikes_of

Mask = NDArray[np.bool_]

_NARROW = 0.01
"""Below this, spikes make stairs of the distribution, which no table of a product follows."""
_STAIRS = 0.1
"""Deviation of a sum of steps over the height of a spike, below which no quadrature follows them.

Above it the expected maximum is right to 1e-8 against mixtures of normals."""
PER_GPU = ("transient", "replica")


def rounds_are_known(columns: Columns, steps: Floats) -> Mask:
    """(points,) where at most one of `PER_GPU` varies; without spikes all are known."""
    known = np.ones(columns.num_points, dtype=np.bool_)
    spiky = np.flatnonzero(spikes_are_active(columns))
    if not len(spiky):
        return known
    for rows in _by_family(columns, spiky):
        part = columns.part(rows)
        source = next(filter(None, (source_of(part, name) for name in PER_GPU)), None)
        lasting = is_active(part, "persistent") | is_active(part, "node")
        narrow = source is None or source.shape[0] < _NARROW
        spikes, whole = spikes_of(part), steps[rows].astype(np.int64)
        spread = 0.0 if source is None else source.shape[0] * np.sqrt(steps[rows])
        stairs = spread < _STAIRS * (spikes.slowdown - 1)
        known[rows] = are_known(source, spikes, whole) & ~stairs & ~(lasting & narrow)
    return known


def _by_family(columns: Columns, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The rows by family and, of observed factors, by table."""
    groups: dict[tuple[object, ...], list[int]] = {}
    paths = [f"variability.{name}.{leaf}" for name in PER_GPU for leaf in ("kind", "quantiles")]
    active = [is_active(columns, name) for name in PER_GPU]
    given = [columns[path] for path in paths]
    for row in rows.tolist():
        key = (*(bool(mask[row]) for mask in active), *(values[row] for values in given))
        groups.setdefault(key, []).append(row)
    return [np.array(group) for group in groups.values()]
