"""Who waits for whom where no barrier ends every step: columns as the recursion takes them."""

from dataclasses import replace

import numpy as np

from service.model.columns import Columns, Floats
from service.model.exchange.bucket_queue import Runs
from service.model.exchange.buckets import runs_of
from service.model.exchange.collectives import exchange_of, part_ms
from service.model.recursion.pattern import Pattern, Rounds, Staleness
from service.model.times import compute_ms
from service.model.waiting import BUCKETS, delay_ms, hides_load, is_local, staleness


def pattern_of(columns: Columns) -> Pattern:
    """Of points that all need a recursion, in one way; times in units of nominal compute."""
    return _rounds(columns) if is_local(columns)[0] else _staleness(columns)


def _staleness(columns: Columns) -> Staleness:
    """Messages are compressed and restored by the GPU itself, which does not compute meanwhile."""
    compute, exchange = compute_ms(columns), exchange_of(columns)
    return Staleness(
        staleness=staleness(columns).astype(np.int64),
        delay_ratio=(exchange.allreduce_ms + delay_ms(columns)) / compute,
        load_ratio=(_serial_load(columns) + exchange.compression_ms) / compute,
        hidden_ratio=_hidden_load(columns) / compute,
    )


def _rounds(columns: Columns) -> Rounds:
    """Likewise; a round's compression is spread over its steps."""
    compute, exchange = compute_ms(columns), exchange_of(columns)
    steps, fragments = columns["synchronization.steps"], columns["synchronization.fragments"]
    rounds = Rounds(
        steps=steps.astype(np.int64),
        fragments=fragments.astype(np.int64),
        overlap_steps=columns["synchronization.overlap_steps"].astype(np.int64),
        release_fraction=columns["synchronization.release_fraction"],
        part_ratio=part_ms(columns, 1 / fragments, exchange) / compute,
        load_ratio=(_serial_load(columns) + exchange.compression_ms / steps) / compute,
        hidden_ratio=_hidden_load(columns) / compute,
    )
    if columns["overlap.kind"][0] != BUCKETS:
        return rounds
    shares, costs_ms = _buckets(runs_of(columns, exchange))
    released: Floats = 1 - columns["backward_fraction"] * (1 - np.cumsum(shares, axis=0))
    return replace(
        rounds,
        release_shares=released,
        bucket_ratios=costs_ms / compute,
        contention_fraction=columns["overlap.contention_fraction"],
    )


def _serial_load(columns: Columns) -> Floats:
    return np.where(hides_load(columns), 0.0, columns["load_ms"])


def _hidden_load(columns: Columns) -> Floats:
    return np.where(hides_load(columns), columns["load_ms"], 0.0)


def _buckets(runs: Runs) -> tuple[Floats, Floats]:
    """(2 runs, points) shares and times, ms.

    Of equal buckets in a row only the first and the last count (`bucket_queue.py`): all but the
    last travel together when the first of them is ready.
    """
    first = np.minimum(runs.num_buckets, 1)
    last = np.maximum(runs.num_buckets - 1, 0)
    # What is ready when: the first bucket, then, with the last, all of the run.
    shares = np.stack([first * runs.share, last * runs.share], axis=1)
    together = np.where(last > 0, last, first)
    costs_ms = np.stack([together * runs.cost_ms, np.minimum(last, 1) * runs.cost_ms], axis=1)
    num_points = runs.share.shape[1]
    return shares.reshape(-1, num_points), costs_ms.reshape(-1, num_points)
