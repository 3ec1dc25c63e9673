"""From the output of nccl-tests' all_reduce_perf to a measured communication.

Times are in us and bandwidths in GB/s (1e9 bytes per second). Both are printed, so each row is
checked against itself: algbw = size/time, and busbw = algbw x the all-reduce's factor of so many
ranks. Other units, or another collective, do not pass.
"""

from typing import NamedTuple

import numpy as np

from service.model.exchange.busbw import busbw_factor
from service.model.exchange.nccl_lines import (
    MeasuredColumn,
    Printed,
    Row,
    UnreadableOutputError,
    read_lines,
)
from service.model.parts.communication import MAX_TABLE, Measured

MAX_TEXT = 1_048_576
MAX_LINES = 50_000
"""Characters and lines of an output."""

# Divided by, not multiplied with a thousandth: 89 585 us are 89.585 ms and not a digit more.
US_PER_MS = 1e3
# One gigabyte per second is so many bytes per microsecond.
BYTES_PER_US = 1e3
# Averages over ranks and iterations, beside what is rounded away in print.
_TOLERANCE = 0.01


class MeasuredOutput(NamedTuple):
    """What an output of nccl-tests says.

    communication  the curve: sizes ascend, times are medians of their rows
    num_ranks      of the measurement; None where the list of ranks is missing or cut
    busbw_gigabytes_per_s  of each size, as printed (the median of its rows)
    num_rows       that were used
    warnings       what was left out, or could not be told
    """

    communication: Measured
    num_ranks: int | None
    busbw_gigabytes_per_s: tuple[float, ...]
    num_rows: int
    warnings: tuple[str, ...]


def read_nccl_tests(text: str, column: MeasuredColumn) -> MeasuredOutput:
    """Read the times of one column.

    Raises UnreadableOutputError with the line and the reason.
    """
    if len(text) > MAX_TEXT:
        raise UnreadableOutputError(f"{len(text)} characters, but {MAX_TEXT} is the limit")
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise UnreadableOutputError(f"{len(lines)} lines, but {MAX_LINES} is the limit")
    found = read_lines(lines, column)
    num_ranks = _agreed(found.num_ranks)
    for row in found.rows:
        _check(row, num_ranks)
    by_size: dict[int, list[Row]] = {}
    for row in sorted(found.rows, key=lambda row: row.size_bytes):
        by_size.setdefault(row.size_bytes, []).append(row)
    _refuse_numbers(len(by_size))
    times = [_median([row.time_us for row in rows]) / US_PER_MS for rows in by_size.values()]
    return MeasuredOutput(
        Measured(
            sizes_bytes=tuple(float(size) for size in by_size),
            times_ms=tuple(times),
            measured_num_ranks=num_ranks,
        ),
        num_ranks,
        tuple(_median([row.busbw for row in rows]) for rows in by_size.values()),
        len(found.rows),
        tuple(_warnings(found.rows, found.num_empty, num_ranks)),
    )


def _agreed(counts: list[int | None]) -> int | None:
    """The number of ranks of all runs in the text."""
    known = sorted({count for count in counts if count is not None})
    if len(known) > 1:
        raise UnreadableOutputError(f"runs of {known[0]} and of {known[-1]} ranks; give one")
    return known[0] if known else None


def _check(row: Row, num_ranks: int | None) -> None:
    if not row.time_us.value:
        raise UnreadableOutputError("time is 0", line=row.line)
    if row.redop == "none" or row.root != "-1":
        raise UnreadableOutputError(
            f"reduction {row.redop or '?'} and root {row.root} are of another collective than an "
            "all-reduce",
            line=row.line,
        )
    low = row.size_bytes / row.time_us.high / BYTES_PER_US
    high = row.size_bytes / max(row.time_us.low, row.time_us.value / 2) / BYTES_PER_US
    if not _meets(row.algbw, low, high):
        raise UnreadableOutputError(
            f"algbw is {row.algbw.value:g} GB/s, but {row.size_bytes} bytes in "
            f"{row.time_us.value:g} us are {(low + high) / 2:.4g} GB/s: are these other units?",
            line=row.line,
        )
    least, most = (1.0, 2.0) if num_ranks is None else (busbw_factor("all_reduce", num_ranks),) * 2
    if not _meets(row.busbw, least * low, most * high):
        among = "some number of" if num_ranks is None else str(num_ranks)
        raise UnreadableOutputError(
            f"busbw is {row.busbw.value:g} GB/s, not that of an all-reduce among {among} ranks, "
            f"{least:g} x algbw" + ("" if num_ranks else " to 2 x algbw"),
            line=row.line,
        )


def _meets(printed: Printed, low: float, high: float) -> bool:
    """Whether what is printed can be a number between the two."""
    return printed.high >= low * (1 - _TOLERANCE) and printed.low <= high * (1 + _TOLERANCE)


def _median(printed: list[Printed]) -> float:
    return float(np.median([number.value for number in printed]))


def _refuse_numbers(num_sizes: int) -> None:
    if not num_sizes:
        raise UnreadableOutputError("no line of results was found")
    if num_sizes == 1:
        raise UnreadableOutputError("one size makes no curve; run with -b, -e and -f 2")
    if num_sizes > MAX_TABLE:
        raise UnreadableOutputError(f"{num_sizes} sizes, but {MAX_TABLE} is the limit")


def _warnings(rows: list[Row], num_empty: int, num_ranks: int | None) -> list[str]:
    found = []
    if num_empty:
        found.append(f"rows of size 0 were left out: {num_empty}")
    kinds = sorted({f"{row.data_type} {row.redop}".strip() for row in rows})
    if len(kinds) > 1:
        found.append(f"medians are taken over {', '.join(kinds)}")
    if num_ranks is None:
        found.append(
            "the list of ranks is missing or cut off, so the curve is taken for any number of "
            "ranks: set measured_num_ranks"
        )
    return found
