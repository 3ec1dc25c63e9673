"""A step whose gradients travel in buckets while backward runs (DDP).

One channel carries the buckets in their order, each when the slowest GPU has it ready and the one
before has passed: e_k = max(x_k, e_(k-1)) + c_k. With W_k what a GPU has computed when bucket k is
ready, in ms at nominal speed, a step takes

    max over k of  S W_k + theta sum_(j<k) c_j + sum_(j>=k) c_j,   theta = gamma / (1 + gamma).

Contention slows compute by 1 + gamma exactly while the channel is busy. If bucket k waits for the
channel, it does not matter when it was ready; if not, all of the time of the buckets before it lies
before x_k, and costs theta of it. So the formula is exact, also with contention.

Of equal buckets in a row the formula is linear in k: only the first and the last one matter. All K
equal: max(S (F + Tb) + c + theta (K-1) c, S (F + Tb/K) + K c).
Source: design page "The model", section 5; contention derived here, checked by event recursion.
"""

from typing import NamedTuple

import numpy as np

from service.model.exchange.lines import Lines, envelope
from service.model.laws.law import Floats


class Window(NamedTuple):
    """Compute of a GPU at nominal speed, (points,) each.

    forward_ms, backward_ms   of a step
    contention_fraction       by how much compute is slower while the channel is busy
    """

    forward_ms: Floats
    backward_ms: Floats
    contention_fraction: Floats


class Runs(NamedTuple):
    """Runs of equal buckets in the order in which they travel, (runs, points) each.

    num_buckets   of the run; 0 where a point has fewer runs
    share         of the message in each bucket of the run; 0 where there is none
    cost_ms       to exchange one of them; 0 where there is none
    """

    num_buckets: Floats
    share: Floats
    cost_ms: Floats


def queue_lines(window: Window, runs: Runs) -> Lines:
    """Lines of compute and communication of a step, ms. Shares of a point sum to 1."""
    whole_share = runs.num_buckets * runs.share
    whole_ms = runs.num_buckets * runs.cost_ms
    share_before = np.cumsum(whole_share, axis=0) - whole_share
    ms_before = np.cumsum(whole_ms, axis=0) - whole_ms
    total_ms = whole_ms.sum(axis=0)
    theta = window.contention_fraction / (1 + window.contention_fraction)
    slopes, offsets = [], []
    for num_before in _first_and_last(runs.num_buckets):
        ready = share_before + (num_before + 1) * runs.share
        passed_ms = ms_before + num_before * runs.cost_ms
        slopes.append(window.forward_ms + window.backward_ms * ready)
        offsets.append(total_ms - (1 - theta) * passed_ms)
    return envelope(np.concatenate(slopes), np.concatenate(offsets))


def _first_and_last(num_buckets: Floats) -> list[Floats]:
    """How many of its run are before the first and the last bucket of each."""
    first = np.zeros_like(num_buckets)
    # A run of none is below the buckets around it.
    last = np.maximum(num_buckets - 1, 0)
    return [first, last] if last.any() else [first]
