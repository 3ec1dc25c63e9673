"""Mean step of GPUs that do not wait for each other every step, where nothing varies between steps.

All that lasts is in S; what the slowest GPU does is what everybody ends up doing, so that only its
own recursion matters. X is what a step takes by itself: load + compute S, or their maximum where
the next step's data load meanwhile. In ms a step:

local steps        max(X, X + (t - slack) / h)
    An exchange of a fragment takes t, every h = H / P steps, and begins once the share `release` of
    the compute of the last of them is done; tau < h steps go on before its result is needed:
    slack = tau X + (X - load - release compute S), the load left out where it is hidden. Where it
    is not, that is tau load + (tau + 1 - release) compute S.
with buckets       ((H - 1) X + last) / H
    last is the step whose backward hides the buckets.
bounded staleness  max(X, (X + d) / (s + 1))
    An update is seen d after the end of the step that makes it. In the second X a hidden load does
    not count: it goes on while an update is waited for.

The first is exact because tau < h: an exchange is over before the next begins, none has to queue.
Source: design page "The model", section 6; the slack with load derived here. Checked by recursions
over unequal ranks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.buckets import bucket_lines
from service.model.exchange.collectives import Exchange, exchange_of, part_ms
from service.model.exchange.lines import Lines, highest, joined, scaled, summed
from service.model.times import compute_ms
from service.model.waiting import BUCKETS, Mask, delay_ms, hides_load, staleness


class Pace(NamedTuple):
    """What a step takes without exchanges, (points,) each.

    compute_ms     at nominal speed
    load_ms        before it, or beside it where hides_load
    constant_ms    before the compute of every step, on the GPU, whatever its speed
    """

    compute_ms: Floats
    load_ms: Floats
    hides_load: Mask
    constant_ms: Floats

    def lines(self) -> Lines:
        """X."""
        serial = self.serial()
        flat = np.where(self.hides_load, self.load_ms, serial.offset[0])
        slope = np.where(self.hides_load, 0.0, self.compute_ms)
        return highest([Lines(slope[np.newaxis], flat[np.newaxis]), serial])

    def serial(self) -> Lines:
        """What is done one after the other: X without a load that is hidden."""
        offset = self.constant_ms + np.where(self.hides_load, 0.0, self.load_ms)
        return Lines(self.compute_ms[np.newaxis].astype(np.float64), offset[np.newaxis])


class Fragments(NamedTuple):
    """Exchanges of local steps, (points,) each: fields of `local_steps`.

    interval_steps   from one to the next; more than overlap_steps
    part_ms          what the exchange of one takes
    """

    interval_steps: Floats
    overlap_steps: Floats
    release_fraction: Floats
    part_ms: Floats


def fragment_lines(pace: Pace, fragments: Fragments) -> Lines:
    """Mean step with exchanges of fragments."""
    alone = pace.lines()
    interval = fragments.interval_steps
    begins_ms = pace.serial().offset
    left = 1 - (fragments.overlap_steps + 1) / interval
    begins_slope = fragments.release_fraction * pace.compute_ms
    late = Lines(
        alone.slope * left + begins_slope / interval,
        alone.offset * left + (fragments.part_ms + begins_ms) / interval,
    )
    return highest([alone, late])


def bucketed_round_lines(pace: Pace, steps: Floats, last: Lines) -> Lines:
    """Mean step of rounds whose last step ends with the lines of its buckets, `last`."""
    hidden = np.where(pace.hides_load, pace.load_ms, 0.0)
    serial = pace.serial().offset[0]
    # Where no load is hidden the line at 0 is below all others.
    floor = Lines(np.zeros((1, len(hidden))), hidden[np.newaxis])
    longest = highest([scaled(last, np.ones_like(serial), serial), floor])
    others = scaled(pace.lines(), 1 - 1 / steps, np.zeros_like(steps))
    return summed(others, scaled(longest, 1 / steps, np.zeros_like(steps)))


def staleness_lines(pace: Pace, steps_ahead: Floats, delay: Floats) -> Lines:
    """Mean step where a GPU may be so many steps ahead of what it has seen, `delay` ms old."""
    gap = 1 / (steps_ahead + 1)
    return highest([pace.lines(), scaled(pace.serial(), gap, delay * gap)])


def local_lines(columns: Columns, exchange: Exchange | None = None) -> Lines:
    """Lines of local steps without their load and compression: ms a step.

    A round's compression is spread over its steps. Where the load is hidden, the step is the
    maximum of it and these and compression.
    """
    whole = exchange_of(columns) if exchange is None else exchange
    is_bucketed = columns["overlap.kind"] == BUCKETS
    by_kind = [
        (rows, kind)
        for mask, kind in ((is_bucketed, _in_buckets), (~is_bucketed, _in_fragments))
        if len(rows := np.flatnonzero(mask))
    ]
    found = [kind(columns.part(rows), _part(whole, rows)) for rows, kind in by_kind]
    return joined(found).part(np.argsort(np.concatenate([rows for rows, _ in by_kind])))


def stale_lines(columns: Columns, exchange: Exchange | None = None) -> Lines:
    """Lines of bounded staleness without their load and compression, ms a step.

    Where the load is hidden, the step is the maximum of it and these and compression.
    """
    whole = exchange_of(columns) if exchange is None else exchange
    pace = _pace(columns, whole.compression_ms)
    delay = whole.allreduce_ms + delay_ms(columns)
    return _without_load(pace, staleness_lines(pace, staleness(columns), delay))


def _in_fragments(columns: Columns, exchange: Exchange) -> Lines:
    pace = _pace(columns, exchange.compression_ms / columns["synchronization.steps"])
    fragments = columns["synchronization.fragments"]
    rounds = Fragments(
        interval_steps=columns["synchronization.steps"] / fragments,
        overlap_steps=columns["synchronization.overlap_steps"],
        release_fraction=columns["synchronization.release_fraction"],
        part_ms=part_ms(columns, 1 / fragments, exchange),
    )
    return _without_load(pace, fragment_lines(pace, rounds))


def _in_buckets(columns: Columns, exchange: Exchange) -> Lines:
    steps = columns["synchronization.steps"]
    pace = _pace(columns, exchange.compression_ms / steps)
    last = bucket_lines(columns, exchange)
    return _without_load(pace, bucketed_round_lines(pace, steps, last))


def _pace(columns: Columns, constant_ms: Floats) -> Pace:
    return Pace(
        compute_ms=compute_ms(columns),
        load_ms=columns["load_ms"],
        hides_load=hides_load(columns),
        constant_ms=constant_ms,
    )


def _without_load(pace: Pace, lines: Lines) -> Lines:
    """What `local_lines` and `stale_lines` leave out is added by who asks."""
    left_out = pace.constant_ms + np.where(pace.hides_load, 0.0, pace.load_ms)
    return scaled(lines, np.ones_like(left_out), -left_out)


def _part(exchange: Exchange, rows: NDArray[np.intp]) -> Exchange:
    return Exchange(
        latency_ms=exchange.latency_ms[rows],
        bandwidth_ms=exchange.bandwidth_ms[rows],
        has_parts=exchange.has_parts[rows],
        compression_ms=exchange.compression_ms[rows],
        algorithm=exchange.algorithm[rows],
    )
