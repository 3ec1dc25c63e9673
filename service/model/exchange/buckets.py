"""The buckets of a step as its columns give them."""

import numpy as np

from service.model.columns import Columns, Floats
from service.model.exchange.bucket_queue import Runs, Window, queue_lines
from service.model.exchange.collectives import Exchange, exchange_of, part_ms
from service.model.exchange.lines import Lines
from service.model.exchange.messages import uncompressed_bytes
from service.model.times import compute_ms


def bucket_lines(columns: Columns, exchange: Exchange | None = None) -> Lines:
    """Lines of compute and communication of a step, ms, without load and compression."""
    return queue_lines(window_of(columns), runs_of(columns, exchange))


def window_of(columns: Columns) -> Window:
    """(points,) forward, backward and contention."""
    backward_ms = compute_ms(columns) * columns["backward_fraction"]
    return Window(
        forward_ms=compute_ms(columns) - backward_ms,
        backward_ms=backward_ms,
        contention_fraction=np.nan_to_num(columns["overlap.contention_fraction"], nan=0.0),
    )


def num_buckets(columns: Columns) -> Floats:
    """(points,) buckets of a step; 1 where nothing is said about them."""
    count = np.where(np.isnan(columns["overlap.num_buckets"]), 1.0, columns["overlap.num_buckets"])
    if not columns.lacks("overlap.bucket_bytes"):
        filled = uncompressed_bytes(columns) / columns["overlap.bucket_bytes"]
        count = np.where(np.isnan(filled), count, np.maximum(np.ceil(filled), 1.0))
    if not columns.lacks("overlap.bucket_shares"):
        listed = columns["overlap.bucket_shares"].tolist()
        count = np.array(
            [
                whole if shares is None else float(len(shares))
                for whole, shares in zip(count, listed, strict=True)
            ]
        )
    return count


def runs_of(columns: Columns, exchange: Exchange | None = None) -> Runs:
    """Buckets as runs of equal ones: full ones and the rest, or each listed one by itself.

    A bucket costs what so much of the message costs by itself, without compression.
    """
    whole = exchange_of(columns) if exchange is None else exchange
    count, share = _full_and_rest(columns)
    if not columns.lacks("overlap.bucket_shares"):
        count, share = _with_listed(columns, count, share)
    there = count > 0
    # A run of none has no share that a measured curve could know.
    cost_ms = np.where(there, part_ms(columns, np.where(there, share, 1.0), whole), 0.0)
    return Runs(num_buckets=count, share=np.where(there, share, 0.0), cost_ms=cost_ms)


def last_bucket_ms(runs: Runs) -> Floats:
    """(points,) time of the last bucket, which no compute can hide."""
    cost_ms: Floats = runs.cost_ms[0]
    for num_buckets_of_run, cost_of_run_ms in zip(
        runs.num_buckets[1:], runs.cost_ms[1:], strict=True
    ):
        cost_ms = np.where(num_buckets_of_run > 0, cost_of_run_ms, cost_ms)
    return cost_ms


def _full_and_rest(columns: Columns) -> tuple[Floats, Floats]:
    """(2, points) or (1, points) buckets of a size and their share of the message."""
    count = num_buckets(columns)
    if columns.lacks("overlap.bucket_bytes"):
        return count[np.newaxis], 1 / count[np.newaxis]
    size = uncompressed_bytes(columns)
    capacity = columns["overlap.bucket_bytes"]
    is_cut = capacity < size
    full = np.where(is_cut, capacity / np.where(is_cut, size, 1.0), 1 / count)
    num_full = np.where(is_cut, count - 1, count)
    rest = np.where(is_cut, np.maximum(1 - num_full * full, 0.0), 0.0)
    return np.stack([num_full, count - num_full]), np.stack([full, rest])


def _with_listed(columns: Columns, count: Floats, share: Floats) -> tuple[Floats, Floats]:
    """The same with a run for each listed bucket, (runs, points), where buckets are listed."""
    rows: dict[tuple[float, ...], list[int]] = {}
    for row, shares in enumerate(columns["overlap.bucket_shares"].tolist()):
        if shares is not None:
            rows.setdefault(tuple(shares), []).append(row)
    num_runs = max((len(shares) for shares in rows), default=0)
    missing = ((0, max(num_runs - len(count), 0)), (0, 0))
    counts, wide = np.pad(count, missing), np.pad(share, missing)
    for shares, at in rows.items():
        counts[:, at] = (np.arange(len(counts)) < len(shares))[:, np.newaxis]
        wide[: len(shares), at] = (np.array(shares) / np.sum(shares))[:, np.newaxis]
    return counts, wide
