"""The first rows in sort order, kept while blocks pass by."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from service.db.codec import Array

Floats = NDArray[np.float64]
Key = tuple[float, ...]


class Ranking:
    """The `limit` smallest rows after `after`, compared by keys, then batch, then point.

    A row's whole key is (keys…, batch number, point): no two rows have the same.
    """

    def __init__(self, *, limit: int, num_keys: int, after: Key | None) -> None:
        self.limit = limit
        self.after = after
        self.keys: Floats = np.empty((num_keys, 0))
        self.batches: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.points: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def excludes(self, earliest: Key) -> bool:
        """Whether no row whose key is `earliest` or greater can still come in."""
        if len(self.points) < self.limit:
            return False
        return earliest > self.row_key(-1)

    def row_key(self, row: int) -> Key:
        """The whole key of a kept row."""
        return (
            *(float(key) for key in self.keys[:, row]),
            int(self.batches[row]),
            int(self.points[row]),
        )

    def add(self, keys: Floats, batch: int, points: NDArray[np.int64]) -> None:
        """Offer the rows of one block: `keys` (num_keys, rows), points (rows,)."""
        batches = np.full(len(points), batch, dtype=np.int64)
        if self.after is not None:
            later = _is_after((*keys, batches, points), self.after)
            keys, batches, points = keys[:, later], batches[later], points[later]
        keys = np.concatenate((self.keys, keys), axis=1)
        batches = np.concatenate((self.batches, batches))
        points = np.concatenate((self.points, points))
        if len(keys) and len(points) > self.limit:
            # Sorting is for those that the first key leaves over.
            bound = np.partition(keys[0], self.limit - 1)[self.limit - 1]
            chosen = keys[0] <= bound
            keys, batches, points = keys[:, chosen], batches[chosen], points[chosen]
        first = np.lexsort((points, batches, *keys[::-1]))[: self.limit]
        self.keys, self.batches, self.points = keys[:, first], batches[first], points[first]


def _is_after(columns: Sequence[Array], bound: Key) -> Array:
    """Lexicographic comparison, row by row."""
    later = np.zeros(len(columns[-1]), dtype=np.bool_)
    equal = np.ones(len(columns[-1]), dtype=np.bool_)
    for column, limit in zip(columns, bound, strict=True):
        later |= equal & (column > limit)
        equal &= column == limit
    return later
