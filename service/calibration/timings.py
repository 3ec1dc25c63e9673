"""Observed timings of one run: what every reader makes and every fit takes.

A cell is one rank in one step. A rank is what moves as one: with tensor parallelism the GPUs of a
group are one rank of the file (`num_gpus_per_rank`).
"""

from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.calibration.findings import FileFound, LeftOut, Remark

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Format = Literal["table", "operations", "kineto"]


class Passes(Struct, frozen=True, kw_only=True):
    """Of a pipeline: mean duration of one micro-batch's pass, (steps, ranks), in ms."""

    forward_ms: FloatArray
    backward_ms: FloatArray
    num_microbatches: int


class Collectives(Struct, frozen=True, kw_only=True):
    """Communication kernels of traces, one entry a kernel, in the order of rank, step, start.

    `order` counts the kernels of one rank and step, so that equal orders on all ranks are one
    collective. `duration_ms` is that of the kernel and holds the wait for the others.
    Compute beside it: the kernel `k` has the intervals `first[k] : first[k + 1]`, merged and
    ascending, each from `before_end_start_ms` to `before_end_stop_ms` before the kernel's own end
    (start > stop >= 0, clipped to the kernel): clocks of ranks are not aligned, but within a rank
    the transfer is the last part of the kernel. `members` is the size of the kernel's process group
    in ranks, 0 where the trace does not say; a group's name is part of `name`.
    """

    rank: IntArray
    step: IntArray
    order: IntArray
    name: tuple[str, ...]
    duration_ms: FloatArray
    first: IntArray
    before_end_start_ms: FloatArray
    before_end_stop_ms: FloatArray
    members: IntArray


class Timings(Struct, frozen=True, kw_only=True):
    """Phases of every rank and step in ms, (steps, ranks) each; a missing cell is NaN.

    `compute_ms` is a rank's own busy compute, without waiting for others. `step_ms` is wall-clock
    time. `steps` ascend and may have gaps; `ranks` ascend. `nodes`, `replicas`, `stages` are per
    rank, (ranks,), where the source tells them. `world_size` is what the source says of the whole
    job, in ranks. `includes_wait` is what the source says of `compute_ms`, None when it is silent.
    """

    format: Format
    files: tuple[FileFound, ...]
    steps: IntArray
    ranks: IntArray
    compute_ms: FloatArray
    load_ms: FloatArray | None = None
    communication_ms: FloatArray | None = None
    step_ms: FloatArray | None = None
    nodes: IntArray | None = None
    replicas: IntArray | None = None
    stages: IntArray | None = None
    world_size: int | None = None
    num_gpus_per_rank: int = 1
    includes_wait: bool | None = None
    passes: Passes | None = None
    collectives: Collectives | None = None
    # Text of an nccl-tests output uploaded beside the timings
    nccl_tests: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[Remark, ...] = ()

    @property
    def num_steps(self) -> int:
        """Rows of every matrix."""
        return len(self.steps)

    @property
    def num_ranks(self) -> int:
        """Columns of every matrix."""
        return len(self.ranks)
