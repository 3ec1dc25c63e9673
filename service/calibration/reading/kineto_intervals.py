"""Merged intervals on one clock: the busy time of kernels that run side by side."""

import numpy as np

from service.calibration.timings import FloatArray, IntArray


def merged(starts: FloatArray, stops: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The union of intervals as disjoint ascending ones; those that touch become one."""
    if not len(starts):
        return starts, stops
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    begins = np.concatenate([[True], starts[1:] > reach[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    return starts[begins], reach[ends]


def busy(starts: FloatArray, stops: FloatArray) -> float:
    """Length of the union of intervals."""
    first, last = merged(starts, stops)
    return float(np.sum(last - first))


def beside(
    starts: FloatArray, stops: FloatArray, others: tuple[FloatArray, FloatArray]
) -> tuple[IntArray, IntArray]:
    """Of each interval, the range of merged `others` that share time with it: first, past last."""
    first = np.searchsorted(others[1], starts, side="right")
    last = np.searchsorted(others[0], stops, side="left")
    return first.astype(np.int64), np.maximum(first, last).astype(np.int64)
