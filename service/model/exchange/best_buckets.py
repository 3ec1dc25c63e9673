"""How many equal buckets make a step shortest, and how much communication a step can hide.

With K equal buckets of cost c = a + C/K, a latency and C the time of the bytes, a step takes
max(A(K), B(K)) with theta = gamma / (1 + gamma):

    A = S (F + Tb) + c + theta (K - 1) c     computing all the way, then the last bucket
    B = S (F + Tb/K) + K c                   the first bucket, then the channel all the way

Both are convex in K, so their maximum is: it is least where A is, where B is, or where they meet:

    K_A = sqrt(C / (gamma a))           endless without contention
    K_B = sqrt(S Tb / a)
    K_m = ((1 + gamma) S Tb - C) / a    with fewer A is longer, with more B

and the best whole number is beside that place. Without contention it is max(K_m, K_B), K_m only
where C < S Tb, as in the reference notes (communication.md 3.2). Derived here, checked against a
search. Without latency more buckets are always better; a measured curve is searched.
"""

from typing import NamedTuple

import numpy as np

from service.model.columns import Columns, Floats
from service.model.exchange.bucket_queue import Window
from service.model.exchange.buckets import window_of
from service.model.exchange.collectives import MEASURED, Exchange, exchange_of, part_ms
from service.model.exchange.messages import message_bytes
from service.model.parts.overlap import MAX_BUCKETS

_MAX_SEARCHED = 1_024


class Best(NamedTuple):
    """(points,) the fewest buckets with the shortest step, and its compute and communication, ms.

    NaN where more buckets are always better, or nothing is exchanged.
    """

    num_buckets: Floats
    ms: Floats


def best_buckets(columns: Columns, slowest: Floats, exchange: Exchange | None = None) -> Best:
    """Of equal buckets, where the slowest GPU's factor is (points,) `slowest`."""
    whole = exchange_of(columns) if exchange is None else exchange
    window = slowed(window_of(columns), slowest)
    best = best_of_latency(window, whole.latency_ms, whole.bandwidth_ms)
    rows = np.flatnonzero(columns["communication.kind"] == MEASURED)
    if len(rows):
        of_rows = Window(*(part[rows] for part in window))
        found = _searched(columns.part(rows), of_rows)
        best.num_buckets[rows], best.ms[rows] = found
    return best


def slowed(window: Window, slowest: Floats) -> Window:
    """The compute of a GPU of this factor."""
    return window._replace(
        forward_ms=window.forward_ms * slowest, backward_ms=window.backward_ms * slowest
    )


def best_of_latency(window: Window, latency_ms: Floats, bandwidth_ms: Floats) -> Best:
    """Where a bucket costs latency + bandwidth / K; at most MAX_BUCKETS."""
    gamma = window.contention_fraction
    # Without latency the places lie at infinity, and are not used.
    latency = np.where(latency_ms > 0, latency_ms, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        least_computing = np.sqrt(bandwidth_ms / (gamma * latency))
    places = np.stack(
        [
            np.nan_to_num(least_computing, nan=1.0),
            np.sqrt(window.backward_ms / latency),
            ((1 + gamma) * window.backward_ms - bandwidth_ms) / latency,
        ]
    )
    around = np.concatenate([np.ones_like(places[:1]), np.floor(places), np.ceil(places)])
    counts = np.sort(np.clip(around, 1, MAX_BUCKETS), axis=0)
    found = _shortest(window, counts, latency_ms + bandwidth_ms / counts)
    return Best(*(np.where(latency_ms > 0, part, np.nan) for part in found))


def equal_bucket_ms(window: Window, num_buckets: Floats, cost_ms: Floats) -> Floats:
    """(…, points) compute and communication with equal buckets of this cost each."""
    theta = window.contention_fraction / (1 + window.contention_fraction)
    compute = window.forward_ms + window.backward_ms
    computing = compute + cost_ms + theta * (num_buckets - 1) * cost_ms
    travelling = window.forward_ms + window.backward_ms / num_buckets + num_buckets * cost_ms
    return np.maximum(computing, travelling)


def _shortest(window: Window, counts: Floats, cost_ms: Floats) -> Best:
    """Of (candidates, points), ascending, the first of the shortest."""
    ms = equal_bucket_ms(window, counts, cost_ms)
    # Round-off makes no more buckets better.
    best = (ms <= ms.min(axis=0) * (1 + 1e-12)).argmax(axis=0)
    rows = np.arange(len(best))
    return Best(counts[best, rows], ms[best, rows])


def _searched(columns: Columns, window: Window) -> Best:
    """A measured curve: coarsely up to 1 024 buckets, then all counts around the best one.

    A bucket is no smaller than the smallest measured message.
    """
    smallest = np.array([sizes[0] for sizes in columns["communication.sizes_bytes"].tolist()])
    most = np.clip(np.floor(message_bytes(columns) / smallest * (1 + 1e-12)), 1, _MAX_SEARCHED)
    coarse = np.unique(np.rint(np.geomspace(1, _MAX_SEARCHED, 200)))
    counts = np.minimum(coarse[:, np.newaxis], most)
    place = _shortest(window, counts, part_ms(columns, 1 / counts)).num_buckets
    # Coarse counts are 3.6 % apart, and whole numbers below 30.
    width = np.arange(-40, 41)[:, np.newaxis]
    counts = np.clip(place + width, 1, most)
    return _shortest(window, counts, part_ms(columns, 1 / counts))
