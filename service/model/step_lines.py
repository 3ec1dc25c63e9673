"""What a step takes, given the factor of its slowest GPU: lines, whatever hides behind what.

In factors: a step is outside + compute x h(S) with outside the serial load and communication, so
that h(S) is S where nothing is hidden. Design page "The model", sections 5 and 6.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.buckets import bucket_lines
from service.model.exchange.collectives import Exchange, exchange_of, half_exchange_of, part_ms
from service.model.exchange.lines import Lines, highest, joined, scaled
from service.model.exchange.round_lines import local_lines, stale_lines
from service.model.exchange.serial import serial_of
from service.model.exchange.sharding import sharded_lines
from service.model.times import compute_ms
from service.model.waiting import (
    BUCKETS,
    FSDP,
    delay_ms,
    hides_load,
    interval_steps,
    is_blocking,
    is_local,
    staleness,
)

Rows = NDArray[np.intp]


class StepLines(NamedTuple):
    """As factors: with the load hidden where it is, and as if there were no load to hide."""

    step: Lines
    rest: Lines


def step_lines_of(columns: Columns) -> StepLines:
    """h(S) at every point."""
    compute, serial = compute_ms(columns), serial_of(columns).ms
    rest = rest_lines_of(columns)
    by_compute = 1 / compute
    hides = hides_load(columns)
    if not hides.any():
        of_rest = scaled(rest, by_compute, -serial * by_compute)
        return StepLines(of_rest, of_rest)
    without = rest_lines_of(without_hidden_load(columns))
    of_rest = scaled(without, by_compute, -serial * by_compute)
    load = np.where(hides, columns["load_ms"], 0.0)
    shorter = scaled(rest, by_compute, -(serial + load) * by_compute)
    # Of a point that hides no load the line lies far below.
    constant = np.where(hides, -serial * by_compute, -np.inf)[np.newaxis]
    floor = Lines(np.zeros_like(constant), np.maximum(constant, shorter.offset.min(axis=0) - 1))
    return StepLines(highest([shorter, floor]), of_rest)


def without_hidden_load(columns: Columns) -> Columns:
    """The same points, but no load where it is hidden."""
    load = np.where(hides_load(columns), 0.0, columns["load_ms"])
    return replace(columns, values={**columns.values, "load_ms": load})


def rest_lines_of(columns: Columns, *, with_latency: bool = True) -> Lines:
    """Compute and communication of a step, ms, a load before it left out.

    A load that is hidden may still tell who is late for an exchange of local steps or staleness.
    Without latency messages take no time but that of their bytes.
    """
    found: list[tuple[Rows, Lines]] = []
    for rows, kind in _by_kind(columns):
        part = columns if len(rows) == columns.num_points else columns.part(rows)
        found.append((rows, kind(part, with_latency=with_latency)))
    order = np.argsort(np.concatenate([rows for rows, _ in found]))
    return joined([lines for _, lines in found]).part(order)


Kind = Callable[..., Lines]


def _by_kind(columns: Columns) -> list[tuple[Rows, Kind]]:
    """The points that share a way of waiting, each with its lines."""
    overlap = columns["overlap.kind"]
    stale = staleness(columns) > 0
    local = is_local(columns) & (~is_blocking(columns) | hides_load(columns))
    chosen = np.select([stale, local, overlap == BUCKETS, overlap == FSDP], [0, 1, 2, 3], default=4)
    kinds: tuple[Kind, ...] = (_stale, _local, _buckets, _sharded, _blocking)
    return [
        (rows, kinds[code])
        for code in range(len(kinds))
        if len(rows := np.flatnonzero(chosen == code))
    ]


def _exchange(columns: Columns, *, with_latency: bool) -> Exchange:
    exchange = exchange_of(columns)
    return exchange if with_latency else exchange._replace(latency_ms=exchange.latency_ms * 0)


def _blocking(columns: Columns, *, with_latency: bool) -> Lines:
    """Every interval its slowest GPU, then an exchange of one fragment, and compression."""
    exchange = _exchange(columns, with_latency=with_latency)
    interval = interval_steps(columns)
    fragments = np.where(is_local(columns), columns["synchronization.fragments"], 1.0)
    of_fragment = part_ms(columns, 1 / fragments, exchange)
    waited = (of_fragment + exchange.compression_ms / fragments) / interval + delay_ms(columns)
    return Lines(compute_ms(columns)[np.newaxis].astype(np.float64), waited[np.newaxis])


def _buckets(columns: Columns, *, with_latency: bool) -> Lines:
    exchange = _exchange(columns, with_latency=with_latency)
    lines = bucket_lines(columns, exchange)
    return _later(lines, exchange.compression_ms + delay_ms(columns))


def _sharded(columns: Columns, *, with_latency: bool) -> Lines:
    half = half_exchange_of(columns)
    if not with_latency:
        half = half._replace(latency_ms=half.latency_ms * 0)
    return _later(sharded_lines(columns, half), half.compression_ms + delay_ms(columns))


def _local(columns: Columns, *, with_latency: bool) -> Lines:
    exchange = _exchange(columns, with_latency=with_latency)
    lines = local_lines(columns, exchange)
    return _later(lines, exchange.compression_ms / columns["synchronization.steps"])


def _stale(columns: Columns, *, with_latency: bool) -> Lines:
    exchange = _exchange(columns, with_latency=with_latency)
    return _later(stale_lines(columns, exchange), exchange.compression_ms)


def _later(lines: Lines, by_ms: Floats) -> Lines:
    return scaled(lines, np.ones_like(by_ms), by_ms)
