"""How much communication a step hides: where GPUs start to idle.

Communication may grow by a factor until a step is longer than computing and the ends that nothing
can hide (the last bucket; the first gather and the last scatter). From the lines of a step it is
1 / S*, S* the last knot: communication that grows is the same as compute that shrinks. Equal
buckets: (1 + gamma) Tb / (K c). Local steps: slack / t. Staleness: (s X - delay) / communication.

The ratio of compute to communication at which GPUs start to idle is the present ratio over that
factor: for equal buckets without latency (F + Tb) / ((1 + gamma) Tb), 1.5 where backward is 2/3.
Source: communication.md 3.2, 3.4 and 3.6; contention and load derived here.
"""

from collections.abc import Callable

import numpy as np

from service.model.columns import Columns, Floats
from service.model.exchange.buckets import bucket_lines
from service.model.exchange.collectives import exchange_of, part_ms
from service.model.exchange.lines import Lines
from service.model.exchange.serial import serial_of
from service.model.exchange.sharding import sharded_lines
from service.model.times import compute_ms
from service.model.waiting import (
    BUCKETS,
    FSDP,
    Mask,
    delay_ms,
    hides_load,
    is_local,
    staleness,
    waits_every_step,
)


def idle_ratio(columns: Columns) -> Floats:
    """(points,) compute / communication of a step below which GPUs idle, at nominal speed.

    Communication is what one exchange costs with nothing hidden. NaN where nothing is hidden, so
    that GPUs idle at any ratio, and where nothing is exchanged.
    """
    communication, growth = serial_of(columns).ms, hidden_growth(columns)
    known = (growth > 0) & np.isfinite(growth)
    most_ms = np.where(known, communication, 1.0) * np.where(known, growth, 1.0)
    return np.where(known, compute_ms(columns) / most_ms, np.nan)


def hidden_growth(columns: Columns) -> Floats:
    """(points,) factor by which communication may grow until GPUs idle, at nominal speed.

    Below 1: they do. 0 where nothing is hidden, inf where nothing is exchanged.
    """
    growth = np.zeros(columns.num_points)
    for mask, kind in _kinds(columns):
        rows = np.flatnonzero(mask)
        if len(rows):
            growth[rows] = kind(columns.part(rows))
    serial = serial_of(columns)
    return np.where(serial.latency_ms + serial.bandwidth_ms > 0, growth, np.inf)


def growth_of_lines(lines: Lines) -> Floats:
    """(points,) 1 / S*, S* where the steepest line takes over; 0 if there is but one."""
    knots = np.where(np.isfinite(lines.knots), lines.knots, 0.0)
    return _ratio(np.ones(lines.slope.shape[1]), knots.max(axis=0, initial=0.0))


def _kinds(columns: Columns) -> list[tuple[Mask, Callable[[Columns], Floats]]]:
    is_bucketed = columns["overlap.kind"] == BUCKETS
    return [
        (is_bucketed, lambda part: growth_of_lines(bucket_lines(part))),
        (columns["overlap.kind"] == FSDP, lambda part: growth_of_lines(sharded_lines(part))),
        (is_local(columns) & ~is_bucketed & ~waits_every_step(columns), _of_fragments),
        (staleness(columns) > 0, _of_staleness),
    ]


def _of_fragments(columns: Columns) -> Floats:
    """Back in time: t <= slack of round_lines.py."""
    compute, load, hides = compute_ms(columns), columns["load_ms"], hides_load(columns)
    before = exchange_of(columns).compression_ms / columns["synchronization.steps"]
    before = np.where(hides, before, before + load)
    step = np.where(hides, np.maximum(load, before + compute), before + compute)
    begins = before + columns["synchronization.release_fraction"] * compute
    slack = (columns["synchronization.overlap_steps"] + 1) * step - begins
    # Half of the last digit is no time to hide anything.
    slack = np.where(slack > 1e-12 * step, slack, 0.0)
    return _ratio(slack, part_ms(columns, 1 / columns["synchronization.fragments"]))


def _of_staleness(columns: Columns) -> Floats:
    """Seen in time: communication + delay <= s X, a hidden load left out of X."""
    exchange = exchange_of(columns)
    load = np.where(hides_load(columns), 0.0, columns["load_ms"])
    step = load + compute_ms(columns) + exchange.compression_ms
    slack = np.maximum(staleness(columns) * step - delay_ms(columns), 0.0)
    return _ratio(slack, exchange.allreduce_ms)


def _ratio(above: Floats, below: Floats) -> Floats:
    """0 where it is no number."""
    ratio = np.zeros(len(above))
    np.divide(above, below, out=ratio, where=below > 0)
    return ratio
