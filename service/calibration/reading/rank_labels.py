"""Labels that a rank keeps: its node, its replica, its stage."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from service.calibration.reading.durations import BadRowError
from service.calibration.timings import IntArray

MAX_RANK: Final = 10**7
_UNSET: Final = -(2**63)


class RankLabels:
    """What the rows said of each rank so far."""

    def __init__(self) -> None:
        self._labels: dict[str, IntArray] = {}

    def add(self, ranks: IntArray, labels: Mapping[str, IntArray], first_row: int) -> None:
        """Take rows, (rows,); raises BadRowError when a rank's label is not what it was."""
        for name, values in labels.items():
            known = self._long_enough(name, int(ranks.max()))
            unset = known[ranks] == _UNSET
            # Of several values for one rank the last one stays, which is the first row's.
            known[ranks[unset][::-1]] = values[unset][::-1]
            differs = known[ranks] != values
            if differs.any():
                row = int(np.argmax(differs))
                raise BadRowError(
                    first_row + row,
                    "bad_value",
                    f"rank {ranks[row]} has another {name} than in a row before: give the steps "
                    "before and after a move as two calibrations",
                )

    def of(self, ranks: IntArray) -> dict[str, IntArray]:
        """The labels that every one of these ranks has, (ranks,)."""
        found = {}
        for name in self._labels:
            known = self._long_enough(name, int(ranks.max()))[ranks]
            if not (known == _UNSET).any():
                found[name] = known
        return found

    def partial(self, ranks: IntArray) -> list[str]:
        """The labels that only some of these ranks have."""
        return sorted(set(self._labels) - set(self.of(ranks)))

    def _long_enough(self, name: str, rank: int) -> IntArray:
        known = self._labels.get(name, np.empty(0, np.int64))
        if rank >= len(known):
            longer = np.full(max(rank + 1, 2 * len(known)), _UNSET)
            longer[: len(known)] = known
            known = longer
        self._labels[name] = known
        return known
