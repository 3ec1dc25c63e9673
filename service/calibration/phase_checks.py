"""Whether the phases of a cell fit into its step: each lies in it, whatever overlaps."""

from typing import Final

import numpy as np

from service.calibration.findings import Remark
from service.calibration.refusals import refused
from service.calibration.timings import BoolArray, FloatArray, Timings

MAX_TO_STEP: Final = 1.01
MAX_SHARE_OVER: Final = 0.01
_MAX_SHARE_OVER_WINDOWS: Final = 0.5
_LOAD: Final = "load_ms is how long a step waits for its data, not how long workers take to make it"


def check_phases(
    timings: Timings, rows: BoolArray, ranks: BoolArray, *, load_is_prefetched: bool | None
) -> list[Remark]:
    """Refuse a phase that is longer than its step; a remark where it is in few cells.

    Of the steps `rows` and of `ranks`. Loading and compute of a rank follow one another, unless it
    is known that loading runs beside. Raises TimingsRefusedError.
    """
    if timings.step_ms is None:
        return []

    is_all = bool(rows.all() and ranks.all())

    def chosen(cells: FloatArray) -> FloatArray:
        return cells if is_all else cells[rows][:, ranks]

    place = timings.steps[rows], timings.ranks[ranks]
    step_ms, compute_ms = chosen(timings.step_ms), chosen(timings.compute_ms)
    remarks = []
    for name, cells in (
        ("compute", timings.compute_ms),
        ("load", timings.load_ms),
        ("communication", timings.communication_ms),
    ):
        if cells is None:
            continue
        times_ms = chosen(cells)
        over = _over(times_ms, step_ms)
        if not over.any():
            continue
        detail = _told(f"{name} is", times_ms, step_ms, over, place)
        # A kernel of a trace may run on beyond the window that its step is told by.
        is_windowed = timings.format == "kineto" and name == "communication"
        most = _MAX_SHARE_OVER_WINDOWS if is_windowed else MAX_SHARE_OVER
        if over.sum() > most * _num_known(times_ms, step_ms):
            meant = f"{_LOAD}, or units" if name == "load" else "units"
            raise refused("inconsistent_times", f"{detail}: {meant} or columns are mixed up")
        remarks.append(Remark(code=f"{name}_over_step", detail=detail))
    if timings.load_ms is None or load_is_prefetched is True:
        return remarks
    serial = chosen(timings.load_ms) + compute_ms
    over = _over(serial, step_ms)
    if over.sum() <= MAX_SHARE_OVER * _num_known(serial, step_ms):
        return remarks
    detail = _told("load and compute together are", serial, step_ms, over, place)
    if load_is_prefetched is False:
        raise refused(
            "inconsistent_times", f"{detail}: then loading runs beside the step, and is not serial"
        )
    remarks.append(
        Remark(
            code="serial_over_step",
            detail=f"{detail}: a part of loading runs beside compute, so say load_is_prefetched; "
            f"{_LOAD}",
        )
    )
    return remarks


def _over(cells: FloatArray, step_ms: FloatArray) -> BoolArray:
    over: BoolArray = cells > MAX_TO_STEP * step_ms  # not where one of them is NaN
    return over


def _num_known(cells: FloatArray, step_ms: FloatArray) -> int:
    return int((np.isfinite(cells) & np.isfinite(step_ms)).sum())


def _told(
    what: str,
    cells: FloatArray,
    step_ms: FloatArray,
    over: BoolArray,
    place: tuple[np.ndarray, np.ndarray],
) -> str:
    """How many cells are over, and the first of them."""
    row, column = divmod(int(np.argmax(over)), over.shape[1])
    return (
        f"in {int(over.sum())} of {_num_known(cells, step_ms)} cells {what} longer than the step, "
        f"such as {cells[row, column]:g} ms of {step_ms[row, column]:g} ms at step "
        f"{place[0][row]}, rank {place[1][column]}"
    )
