"""Traces of the PyTorch profiler (Kineto): Chrome's JSON, one file a rank."""

import re
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from service.calibration.findings import FileFound, LeftOut, Remark
from service.calibration.options import CalibrationOptions
from service.calibration.reading.kineto_cells import (
    RankCells,
    RankCollectives,
    reduce_trace,
)
from service.calibration.reading.kineto_events import Trace, read_trace
from service.calibration.reading.kineto_names import Kind, examples
from service.calibration.reading.open_file import OpenFile, Progress, tell_nobody
from service.calibration.refusals import refused
from service.calibration.timings import Collectives, FloatArray, Timings

_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_ ]?(\d{1,9})", re.IGNORECASE)


class _Rank(Struct, frozen=True, kw_only=True):
    file: str
    stated_rank: int | None
    world_size: int | None
    backend: str | None
    names: list[str]
    cells: RankCells
    collectives: RankCollectives


def read_kineto(
    files: Sequence[OpenFile], options: CalibrationOptions, progress: Progress = tell_nobody
) -> Timings:
    """Cells in ms of every rank's trace, with its collectives.

    `compute_ms` is the merged busy time of compute kernels, which wait for nobody.
    `communication_ms` is that of communication kernels, and holds their waiting. A step that a rank
    has not is NaN. One file is read at a time, in memory bounded by the number of its kernels.
    """
    found: list[FileFound] = []
    ranks: list[_Rank] = []
    num_bytes = 0

    def tell(more: int) -> None:
        nonlocal num_bytes
        num_bytes += more
        progress(num_bytes)

    for file in files:
        trace = read_trace(file.name, file.stream, tell)
        ranks.append(_reduced(trace, file.name))
        found.append(
            FileFound(
                name=file.name,
                format="kineto",
                num_bytes=file.num_bytes,
                sha256=file.sha256,
                num_rows=trace.num_events,
            )
        )
    warnings: list[Remark] = []
    by_number = _numbered(ranks, warnings)
    world_size = _world_size(by_number)
    _refuse_silent_communication(by_number, world_size)
    return _timings(by_number, options, world_size, tuple(found), tuple(warnings))


def _reduced(trace: Trace, file: str) -> _Rank:
    cells, collectives = reduce_trace(trace, file)
    in_name = _RANK_IN_NAME.findall(file)
    from_name = int(in_name[-1]) if in_name else None
    used = np.unique(trace.name[(trace.kind == Kind.COMPUTE) & (trace.name >= 0)])
    return _Rank(
        file=file,
        stated_rank=from_name if trace.rank is None else trace.rank,
        world_size=trace.world_size,
        backend=trace.backend,
        names=[trace.names[index] for index in used],
        cells=cells,
        collectives=collectives,
    )


def _numbered(ranks: list[_Rank], warnings: list[Remark]) -> dict[int, _Rank]:
    """Ranks by their number, ascending; those of unknown number take the free ones in order."""
    numbered: dict[int, _Rank] = {}
    for rank in ranks:
        if (number := rank.stated_rank) is None:
            continue
        if number in numbered:
            raise refused(
                "duplicate_row",
                f"rank {number} stands in {numbered[number].file} too: one file a rank",
                file=rank.file,
            )
        numbered[number] = rank
    unknown = [rank for rank in ranks if rank.stated_rank is None]
    free = 0
    for rank in unknown:
        while free in numbered:
            free += 1
        numbered[free] = rank
    if unknown:
        warnings.append(
            Remark(
                code="ranks_by_order",
                detail=f"{len(unknown)} of {len(ranks)} traces say neither in distributedInfo nor "
                "in their name (rank-3, rank_3, worker3) which rank they are of: they are numbered "
                f"in the order of upload, beginning with {unknown[0].file}",
            )
        )
    return dict(sorted(numbered.items()))


def _world_size(ranks: dict[int, _Rank]) -> int | None:
    said = {rank.world_size: rank.file for rank in ranks.values() if rank.world_size}
    if len(said) > 1:
        (one, first), (other, second) = list(said.items())[:2]
        raise refused(
            "bad_value",
            f"world_size is {other} here and {one} in {first}: traces of one run are expected",
            file=second,
        )
    world_size = next(iter(said), None)
    beyond = [number for number in ranks if world_size is not None and number >= world_size]
    if beyond:
        raise refused(
            "bad_value",
            f"rank {beyond[0]} is not below world_size {world_size}",
            file=ranks[beyond[0]].file,
        )
    return world_size


def _refuse_silent_communication(ranks: dict[int, _Rank], world_size: int | None) -> None:
    """Several ranks of which one communicates under no known name: overlap would read as none."""
    if max(len(ranks), world_size or 1) == 1:
        return
    for number, rank in ranks.items():
        if not len(rank.collectives.step):
            backend = f", backend {rank.backend}" if rank.backend else ""
            raise refused(
                "unknown_kernel_names",
                f"rank {number} of {max(len(ranks), world_size or 1)}{backend} has no "
                "communication kernel under a known name (nccl…, rccl…, msccl…, hccl…, oneccl…); "
                f"kernels seen: {'; '.join(examples(rank.names))}",
                file=rank.file,
            )


def _timings(
    ranks: dict[int, _Rank],
    options: CalibrationOptions,
    world_size: int | None,
    files: tuple[FileFound, ...],
    warnings: tuple[Remark, ...],
) -> Timings:
    steps = np.unique(np.concatenate([rank.cells.steps for rank in ranks.values()]))

    def matrix(column: str) -> FloatArray:
        cells = np.full((len(steps), len(ranks)), np.nan)
        for place, rank in enumerate(ranks.values()):
            rows = np.searchsorted(steps, rank.cells.steps)
            cells[rows, place] = getattr(rank.cells, column)
        return cells

    left_out: dict[str, int] = {}
    for rank in ranks.values():
        for left in rank.cells.left_out:
            left_out[left.reason] = left_out.get(left.reason, 0) + left.count
    communicates = any(len(rank.collectives.step) for rank in ranks.values())
    return Timings(
        format="kineto",
        files=files,
        steps=steps,
        ranks=np.array(list(ranks), np.int64),
        compute_ms=matrix("compute_ms"),
        communication_ms=matrix("communication_ms") if communicates else None,
        step_ms=matrix("step_ms"),
        world_size=world_size,
        num_gpus_per_rank=options.tensor_parallel_size,
        includes_wait=False,
        collectives=_joined(ranks) if communicates else None,
        left_out=tuple(LeftOut(reason=reason, count=n) for reason, n in left_out.items()),
        warnings=warnings,
    )


def _joined(ranks: dict[int, _Rank]) -> Collectives:
    """Collectives of all ranks, one rank after the other."""
    each = [rank.collectives for rank in ranks.values()]
    return Collectives(
        rank=np.repeat(list(ranks), [len(one.step) for one in each]).astype(np.int64),
        step=np.concatenate([one.step for one in each]),
        order=np.concatenate([one.order for one in each]),
        name=tuple(name for one in each for name in one.name),
        members=np.concatenate([one.members for one in each]),
        duration_ms=np.concatenate([one.duration_ms for one in each]),
        first=np.concatenate([[0], np.cumsum(np.concatenate([one.counts for one in each]))]),
        before_end_start_ms=np.concatenate([one.before_end_start_ms for one in each]),
        before_end_stop_ms=np.concatenate([one.before_end_stop_ms for one in each]),
    )
