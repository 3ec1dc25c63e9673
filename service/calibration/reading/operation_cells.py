"""Operations folded to cells: compute, passes, and the window of each rank's step."""

from typing import Final, NamedTuple

import numpy as np

from service.calibration.findings import Remark
from service.calibration.reading.cells import MAX_STEP, refuse_outside, refuse_size
from service.calibration.reading.columns import shown
from service.calibration.reading.folding import Folding, Numbering
from service.calibration.reading.limits import ReadingLimits
from service.calibration.reading.operation_rows import (
    BACKWARD,
    FORWARD,
    Operations,
    OperationsFile,
)
from service.calibration.reading.rank_labels import MAX_RANK, RankLabels
from service.calibration.refusals import refused
from service.calibration.timings import BoolArray, FloatArray, IntArray, Passes

_LABELS: Final[tuple[str, ...]] = ("stage", "dp_rank")
# Ranks of a key: as many as the limit of their numbers.
RANK_FACTOR: Final = MAX_RANK + 1
# Starts told so coarsely that a window is off by more than this part of it are not used.
_COARSENESS: Final = 1e-3
_MOST_NAMED: Final = 8


class OperationMatrices(NamedTuple):
    """Times in ms (steps, ranks), NaN where there is none; labels (ranks,)."""

    steps: IntArray
    ranks: IntArray
    compute_ms: FloatArray
    step_ms: FloatArray | None
    passes: Passes | None
    labels: dict[str, IntArray]
    num_incomplete: int
    remarks: list[Remark]


class OperationCells:
    """Folds operations, in any order, to one row a cell."""

    def __init__(self, limits: ReadingLimits) -> None:
        self._limits = limits
        self._steps = Numbering(limits.num_steps)
        self._ranks: set[int] = set()
        self._labels = RankLabels()
        self._names: dict[str, None] = {}
        self._has_starts = self._has_ids = True
        self._starts_are_single = False
        self._largest_start_s = 0.0
        self._most = {"mb_id": 0, "mc": 0}
        self._folding = Folding(
            {
                "forward_s": np.add,
                "num_forward": np.add,
                "backward_s": np.add,
                "num_backward": np.add,
                "start_s": np.minimum,
                "end_s": np.maximum,
            }
        )

    def begin(self, source: OperationsFile) -> None:
        """Take the next file's columns."""
        self._has_starts &= "start_ts" in source.columns
        self._has_ids &= {"mb_id", "mc"} <= source.columns
        self._starts_are_single |= source.starts_are_single

    def step_numbers(self, batch: Operations) -> IntArray:
        """Of each row's step, a number that keeps."""
        return self._steps.of(batch.steps)

    @property
    def numbered_steps(self) -> IntArray:
        """The steps in the order of their numbers."""
        return self._steps.values()

    def add(self, batch: Operations) -> None:
        """Take operations; raises BadRowError and TimingsRefusedError."""
        refuse_outside(batch.steps, "step", MAX_STEP, batch.first_row)
        refuse_outside(batch.ranks, "rank", MAX_RANK, batch.first_row)
        labels: dict[str, IntArray] = {
            name: batch.numbers[name] for name in _LABELS if name in batch.numbers
        }
        self._labels.add(batch.ranks, labels, batch.first_row)
        self._ranks.update(np.unique(batch.ranks).tolist())
        steps = self.step_numbers(batch)
        refuse_size(len(self._steps), len(self._ranks), self._limits)
        self._names.update(dict.fromkeys(batch.names[:_MOST_NAMED]))
        self._fold(batch, steps)

    def matrices(self) -> OperationMatrices:
        """All cells; raises TimingsRefusedError where there is no compute among them."""
        keys, columns = self._folding.found()
        self._refuse_none(columns)
        ranks = np.array(sorted(self._ranks), np.int64)
        numbered = self.numbered_steps
        order = np.argsort(numbered)
        row = np.empty(len(order), np.int64)
        row[order] = np.arange(len(order))
        cells = row[keys // RANK_FACTOR], np.searchsorted(ranks, keys % RANK_FACTOR)
        whole = {}
        for name, values in columns.items():
            whole[name] = np.full((len(order), len(ranks)), np.nan)
            whole[name][cells] = values
        self._refuse_repeated(whole, numbered[order], ranks)
        is_whole = _are_whole(whole)
        compute_ms = np.where(is_whole, (whole["forward_s"] + whole["backward_s"]) * 1e3, np.nan)
        step_ms, reason = self._windows_ms(whole, compute_ms)
        return OperationMatrices(
            numbered[order],
            ranks,
            compute_ms,
            None if step_ms is None else _longest(step_ms),
            self._passes(whole, is_whole),
            self._labels.of(ranks),
            int(np.count_nonzero(~is_whole & (whole["num_forward"] >= 0))),
            [Remark(code="no_step_time", detail=reason)] if reason else [],
        )

    def _fold(self, batch: Operations, steps: IntArray) -> None:
        forward, backward = (
            batch.optypes == (batch.names.index(name) if name in batch.names else -1)
            for name in (FORWARD, BACKWARD)
        )
        starts_s = np.zeros(len(steps)) if batch.starts_s is None else batch.starts_s
        self._largest_start_s = max(self._largest_start_s, float(np.abs(starts_s).max()))
        self._folding.add(
            steps * RANK_FACTOR + batch.ranks,
            {
                "forward_s": np.where(forward, batch.durations_s, 0.0),
                "num_forward": forward.astype(np.float64),
                "backward_s": np.where(backward, batch.durations_s, 0.0),
                "num_backward": backward.astype(np.float64),
                "start_s": starts_s,
                "end_s": starts_s + batch.durations_s,
            },
        )
        if self._has_ids and (forward | backward).any():
            for name in self._most:
                largest = int(batch.numbers[name][forward | backward].max())
                self._most[name] = max(self._most[name], largest)

    def _refuse_none(self, columns: dict[str, FloatArray]) -> None:
        if not len(columns["num_forward"]):
            raise refused("no_steps", "there is no row")
        if not columns["num_forward"].any():
            seen = ", ".join(shown(name) for name in self._names)
            raise refused(
                "unknown_kernel_names",
                f"no operation is of the type {FORWARD} (nor {BACKWARD}), whose durations are the "
                f"compute of a rank; types seen: {seen}",
            )

    def _refuse_repeated(
        self, whole: dict[str, FloatArray], steps: IntArray, ranks: IntArray
    ) -> None:
        """More passes than micro-batches times chunks: some operations are there twice."""
        num_passes = (self._most["mb_id"] + 1) * (self._most["mc"] + 1)
        for name in ("num_forward", "num_backward"):
            over = np.argwhere(whole[name] > num_passes)
            if self._has_ids and len(over):
                step, rank = over[0]
                raise refused(
                    "duplicate_row",
                    f"rank {ranks[rank]} has {whole[name][step, rank]:g} passes in step "
                    f"{steps[step]}, but {num_passes} different micro-batches (mb_id, mc): are "
                    "operations there twice?",
                )

    def _windows_ms(
        self, whole: dict[str, FloatArray], compute_ms: FloatArray
    ) -> tuple[FloatArray | None, str]:
        """From the start of a rank's first operation to the end of its last, by its own clock."""
        if not self._has_starts:
            return None, "the files have no start_ts, so they do not tell the time of a step"
        windows_ms = (whole["end_s"] - whole["start_s"]) * 1e3
        known = ~np.isnan(compute_ms) & ~np.isnan(windows_ms)
        if not known.any():
            return None, "start_ts is no number, so the files do not tell the time of a step"
        median_ms = float(np.median(windows_ms[known]))
        if self._starts_are_single:
            unit_ms = float(np.spacing(np.float32(self._largest_start_s))) * 1e3
            if unit_ms > _COARSENESS * median_ms:
                return None, (
                    f"start_ts is told to {unit_ms:g} ms only, too coarse for the time of a step: "
                    "give it from the start of the step, or in double precision"
                )
        if (windows_ms[known] < compute_ms[known] * (1 - _COARSENESS)).any():
            return None, (
                "a rank computes for longer than from its first start_ts to its last end, so "
                "start_ts is of another unit or clock, and no time of a step is taken from it"
            )
        return np.where(known, windows_ms, np.nan), ""

    def _passes(self, whole: dict[str, FloatArray], is_whole: BoolArray) -> Passes | None:
        """Of one micro-batch, over all chunks; None where cells differ in their number."""
        counts = np.unique(
            np.concatenate([whole["num_forward"][is_whole], whole["num_backward"][is_whole]])
        )
        if len(counts) != 1:
            return None
        num_microbatches = self._most["mb_id"] + 1 if self._has_ids else int(counts[0])
        forward_ms, backward_ms = (
            np.where(is_whole, whole[name] * 1e3 / num_microbatches, np.nan)
            for name in ("forward_s", "backward_s")
        )
        return Passes(
            forward_ms=forward_ms, backward_ms=backward_ms, num_microbatches=num_microbatches
        )


def _longest(windows_ms: FloatArray) -> FloatArray:
    """The step of (steps, ranks) windows, where there is one: that of the rank with the longest.

    A later stage of a pipeline has no operation until its first pass, so its own is too short.
    """
    longest = np.where(np.isnan(windows_ms), 0.0, windows_ms).max(axis=1, keepdims=True)
    return np.where(np.isnan(windows_ms), np.nan, longest)


def _are_whole(whole: dict[str, FloatArray]) -> BoolArray:
    """Cells with as many passes as the rank has in any step, of which it has some."""
    found = np.ones(whole["num_forward"].shape, np.bool_)
    for name in ("num_forward", "num_backward"):
        counts = np.nan_to_num(whole[name])
        found &= counts == counts.max(axis=0)
    return found & (np.nan_to_num(whole["num_forward"] + whole["num_backward"]) > 0)
