"""Many rows folded to one a key, in memory that grows with the keys and not with the rows."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from service.calibration.timings import FloatArray, IntArray

# Rows that wait to be folded into those before; as many as there are keys when these are more.
_LEAST_PENDING: Final = 1 << 20


class Folding:
    """Keeps of each key its columns, each folded by an associative function of two arguments."""

    def __init__(self, functions: Mapping[str, np.ufunc]) -> None:
        self._functions = functions
        self._keys = np.empty(0, np.int64)
        self._columns: dict[str, FloatArray] = {name: np.empty(0) for name in functions}
        self._pending: list[tuple[IntArray, dict[str, FloatArray]]] = []
        self._num_pending = 0

    def add(self, keys: IntArray, columns: Mapping[str, FloatArray]) -> None:
        """Take rows, (rows,) each."""
        if not len(keys):
            return
        self._pending.append(self._folded(keys, columns))
        self._num_pending += len(self._pending[-1][0])
        if self._num_pending > max(_LEAST_PENDING, len(self._keys)):
            self._fold_pending()

    def found(self) -> tuple[IntArray, dict[str, FloatArray]]:
        """The keys, ascending, and their columns."""
        self._fold_pending()
        return self._keys, self._columns

    def _fold_pending(self) -> None:
        parts = [(self._keys, self._columns), *self._pending]
        self._pending, self._num_pending = [], 0
        self._keys, self._columns = self._folded(
            np.concatenate([keys for keys, _ in parts]),
            {
                name: np.concatenate([columns[name] for _, columns in parts])
                for name in self._functions
            },
        )

    def _folded(
        self, keys: IntArray, columns: Mapping[str, FloatArray]
    ) -> tuple[IntArray, dict[str, FloatArray]]:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return ordered[starts], {
            name: function.reduceat(columns[name][order], starts)
            for name, function in self._functions.items()
        }


class Numbering:
    """Numbers from 0 for values in the order of their appearance, at most so many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, values: IntArray) -> IntArray:
        """The numbers of the values, (rows,); `len` may then be over `most`, which is refused."""
        distinct, places = np.unique(values, return_inverse=True)
        numbers = [
            self._numbers.setdefault(value, len(self._numbers)) for value in distinct.tolist()
        ]
        return np.array(numbers, np.int64)[places]

    def values(self) -> IntArray:
        """The values in the order of their numbers."""
        return np.fromiter(self._numbers, np.int64, len(self._numbers))
