"""Collectives of operations without the wait for late ranks.

Every rank's collective ends when the last one came and the data are through, so the rank that came
last waits for nobody and its duration, the shortest of the group, is the transfer. Durations need
no common clock. A group is the replicas of one stage (dp_rank), or, where the name says
"embedding", the stages that share it. The transfer goes to each rank of the group.
Without two ranks in a group nothing can be told, and nothing is.
"""

from typing import Final

import numpy as np

from service.calibration.reading.durations import BadRowError
from service.calibration.reading.folding import Folding, Numbering
from service.calibration.reading.operation_cells import OperationMatrices
from service.calibration.reading.operation_rows import Operations
from service.calibration.timings import FloatArray, IntArray

_COLLECTIVES: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
_OVER_STAGES: Final = "embedding"
_MOST_STAGES: Final = 4_096
_MOST_NAMES: Final = 256
_MOST_PER_STEP: Final = 65_536


class Transfers:
    """Folds collectives to one row a group of ranks, and to one a rank and step."""

    def __init__(self) -> None:
        self._stages = Numbering(_MOST_STAGES)
        self._names: dict[str, int] = {}
        self._members: dict[int, set[int]] = {}
        self._groups = Folding({"shortest_s": np.minimum, "num_ranks": np.add})

    def add(self, batch: Operations, steps: IntArray) -> None:
        """Take the collectives among the operations, `steps` by number; raises BadRowError."""
        numbers = np.array([self._number(name) for name in batch.names], np.int64)
        names = numbers[batch.optypes]
        (rows,) = np.nonzero(names >= 0)
        if not len(rows):
            return
        stages, orders = (
            batch.numbers.get(column, np.zeros(len(steps), np.int64))[rows]
            for column in ("stage", "seq_id")
        )
        is_over_stages = np.array([_OVER_STAGES in name for name in batch.names], np.bool_)
        stages = np.where(is_over_stages[batch.optypes[rows]], -1, stages)
        stage_numbers = self._stages.of(stages)
        refused = (orders < 0) | (orders >= _MOST_PER_STEP)
        if refused.any() or len(self._stages) > _MOST_STAGES or len(self._names) > _MOST_NAMES:
            row = int(rows[np.argmax(refused)])
            raise BadRowError(
                batch.first_row + row,
                "bad_value",
                f"collectives are of over {_MOST_STAGES} stages or {_MOST_NAMES} names, or seq_id, "
                f"their number within a step, is not from 0 to {_MOST_PER_STEP - 1}",
            )
        for name in np.unique(names[rows]).tolist():
            members = np.unique(batch.ranks[rows[names[rows] == name]])
            self._members.setdefault(name, set()).update(members.tolist())
        keys = steps[rows] * _MOST_STAGES + stage_numbers
        keys = (keys * _MOST_NAMES + names[rows]) * _MOST_PER_STEP + orders
        self._groups.add(
            keys, {"shortest_s": batch.durations_s[rows], "num_ranks": np.ones(len(rows))}
        )

    def matrix(self, found: OperationMatrices, numbered_steps: IntArray) -> FloatArray | None:
        """Transfer in ms of each rank and step, (steps, ranks); None where no group has two ranks.

        `numbered_steps` has the steps in the order of their numbers.
        """
        keys, columns = self._groups.found()
        if not (columns["num_ranks"] > 1).any():
            return None
        transfers_ms = np.where(columns["num_ranks"] > 1, columns["shortest_s"] * 1e3, np.nan)
        pairs, places = np.unique(
            keys // _MOST_PER_STEP % (_MOST_STAGES * _MOST_NAMES), return_inverse=True
        )
        steps = keys // (_MOST_PER_STEP * _MOST_NAMES * _MOST_STAGES)
        rows = np.searchsorted(found.steps, numbered_steps[steps])
        stages = found.labels.get("stage", np.zeros(len(found.ranks), np.int64))
        communication_ms = np.where(np.isnan(found.compute_ms), np.nan, 0.0)
        for place, pair in enumerate(pairs.tolist()):
            stage, name = self._stages.values()[pair // _MOST_NAMES], pair % _MOST_NAMES
            takes_part = np.isin(found.ranks, list(self._members[name]))
            takes_part &= (stage == -1) | (stages == stage)
            here = places == place
            each_ms = np.bincount(rows[here], transfers_ms[here], len(found.steps))
            communication_ms[:, takes_part] += each_ms[:, None]
        return None if np.isnan(communication_ms).all() else communication_ms

    def _number(self, name: str) -> int:
        """Of a collective's name, or -1 for any other operation."""
        if not any(word in name.replace("_", "-") for word in _COLLECTIVES):
            return -1
        return self._names.setdefault(name, len(self._names))
