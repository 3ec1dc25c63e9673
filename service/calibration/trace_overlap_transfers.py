"""What of every communication kernel is transfer, and what of that lies beside compute.

A kernel starts when its own rank is ready and ends when all are done, so the rank that comes last
waits for nobody: the transfer of a collective is its shortest kernel over all ranks, and on every
rank it is the last part of the kernel (TraceLens; communication notes, section 5). Only durations
are compared between ranks, never clocks.
"""

import numpy as np
from msgspec import Struct

from service.calibration.timings import BoolArray, Collectives, FloatArray, IntArray


class Transfers(Struct, frozen=True, kw_only=True):
    """Sums of kernels per step and rank, (steps, ranks), in ms; NaN where a rank has no kernels.

    `transfer_ms` is at most what it is called: a collective of which not all ranks were seen counts
    with its shortest seen kernel. `certain_ms` is the part of it that all ranks were seen of.
    `exposed_ms` is the part of `transfer_ms` without compute of the same rank beside it.
    Per step, (steps,): `last_exposed_ms` is what is exposed of every collective on its own
    last-arriving rank; `is_symmetric`, whether all ranks took part in the same collectives;
    `num_kernels`, on all ranks; `num_partly_seen`, collectives of which ranks are missing.
    """

    steps: IntArray
    transfer_ms: FloatArray
    certain_ms: FloatArray
    exposed_ms: FloatArray
    duration_ms: FloatArray
    last_exposed_ms: FloatArray
    is_symmetric: BoolArray
    num_kernels: IntArray
    num_partly_seen: IntArray
    naive_ratio: float

    def only(self, rows: BoolArray) -> "Transfers":
        """Of these steps alone; the naive ratio stays that of all."""
        per_step = {
            name: getattr(self, name)[rows]
            for name in self.__struct_fields__
            if name != "naive_ratio"
        }
        return Transfers(naive_ratio=self.naive_ratio, **per_step)


def transfers_of(collectives: Collectives, num_ranks: int) -> Transfers:
    """Transfers of all collectives; `num_ranks` is that of the job, for groups of unknown size.

    Kernels of one step, name (with process group) and order among those of that name are one
    collective. Where ranks have different numbers of one name in a step (sending and receiving
    between the stages of a pipeline), or where more ranks have it than its group has members, order
    does not tell which belong together: each kernel is then only known to transfer for no longer
    than it takes.
    """
    key, seen, is_even = _matched(collectives)
    duration = collectives.duration_ms
    num_keys = len(seen)
    shortest = np.full(num_keys, np.inf)
    np.minimum.at(shortest, key, duration)
    members = np.zeros(num_keys, np.int64)
    np.maximum.at(members, key, collectives.members)
    # More ranks than a group has: several groups share the name, and none of them is told apart.
    is_even &= (members == 0) | (seen <= members)
    is_certain = is_even & (seen >= np.where(members > 0, members, num_ranks))
    transfer = np.where(is_even[key], shortest[key], duration)
    exposed = transfer - _beside(collectives, transfer)
    steps, row = np.unique(collectives.step, return_inverse=True)
    ranks, column = np.unique(collectives.rank, return_inverse=True)
    shape = (len(steps), len(ranks))

    def table(values: FloatArray) -> FloatArray:
        return _sums(row * shape[1] + column, values, shape[0] * shape[1]).reshape(shape)

    num_of = table(np.ones(len(key)))
    missing = np.where(num_of > 0, 0.0, np.nan)
    key_row = np.zeros(num_keys, np.int64)
    key_row[key] = row
    is_of_all = seen == np.sum(num_of > 0, axis=1)[key_row]
    # On the rank whose kernel is the shortest; of equals the first
    order = np.lexsort((duration, key))
    last = order[np.concatenate([[True], np.diff(key[order]) > 0])]
    overlap = _beside(collectives, duration)
    return Transfers(
        steps=steps,
        transfer_ms=table(transfer) + missing,
        certain_ms=table(np.where(is_certain[key], transfer, 0.0)) + missing,
        exposed_ms=table(exposed) + missing,
        duration_ms=table(duration) + missing,
        last_exposed_ms=_sums(row[last], exposed[last], len(steps)),
        is_symmetric=np.bincount(key_row, weights=~is_of_all, minlength=len(steps)) == 0,
        num_kernels=np.bincount(row, minlength=len(steps)),
        num_partly_seen=np.bincount(key_row[~is_certain], minlength=len(steps)),
        naive_ratio=float(np.sum(overlap) / max(float(np.sum(duration)), 1e-300)),
    )


def _matched(collectives: Collectives) -> tuple[IntArray, IntArray, BoolArray]:
    """Which collective every kernel belongs to; of each, the ranks that are seen.

    And whether those ranks have equally many of its name in the step.
    """
    numbers: dict[str, int] = {}
    name = np.array([numbers.setdefault(n, len(numbers)) for n in collectives.name], np.int64)
    order = np.lexsort((collectives.order, name, collectives.step, collectives.rank))
    same = np.ones(len(order), bool)
    for column in (collectives.rank, collectives.step, name):
        same[1:] &= np.diff(column[order]) == 0
    same[:1] = False
    place = np.arange(len(order))
    occurrence = np.empty(len(order), np.int64)
    occurrence[order] = place - np.maximum.accumulate(np.where(same, 0, place))
    triples = np.stack([collectives.step, name, occurrence], axis=1)
    found, key, seen = np.unique(triples, axis=0, return_inverse=True, return_counts=True)
    # They are sorted, so those of one step and name stand together
    begins = np.concatenate([[True], np.any(np.diff(found[:, :2], axis=0) != 0, axis=1)])
    starts = np.flatnonzero(begins)
    is_even = np.minimum.reduceat(seen, starts) == np.maximum.reduceat(seen, starts)
    of_name = np.cumsum(begins) - 1
    return key.reshape(-1).astype(np.int64), seen.astype(np.int64), is_even[of_name]


def _beside(collectives: Collectives, last_ms: FloatArray) -> FloatArray:
    """Compute beside the last `last_ms` of every kernel, in ms."""
    counts = np.diff(collectives.first)
    kernel = np.repeat(np.arange(len(counts)), counts)
    shared = np.minimum(collectives.before_end_start_ms, last_ms[kernel])
    shared = np.maximum(shared - collectives.before_end_stop_ms, 0.0)
    return _sums(kernel, shared, len(counts))


def _sums(places: IntArray, values: FloatArray, num_places: int) -> FloatArray:
    """Of the values at each place; the annotations of bincount know of counts only."""
    found = np.bincount(places, weights=values, minlength=num_places)
    return found.astype(np.float64, copy=False)
