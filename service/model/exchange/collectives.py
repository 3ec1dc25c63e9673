"""How long an exchange among all ranks takes, and which algorithm does it.

Design page "The model", section 5. `fixed` and `measured` are charged as given, also to a single
rank.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange import formulas
from service.model.exchange.links import has_intra_link
from service.model.exchange.measured import measured_ms
from service.model.exchange.message_times import MessageTimes
from service.model.exchange.messages import fills_nodes, message_bytes, num_ranks
from service.model.exchange.nccl import RING_ONLY, TREE_ONLY, nccl_ring, nccl_tree
from service.model.leaves import leaves
from service.model.results import COLLECTIVES

ALGORITHMS = COLLECTIVES

FIXED, RING, TREE, HIERARCHICAL, AUTO, TRANSFER, NCCL, MEASURED = (
    1 + leaves()["communication.kind"].labels.index(kind)
    for kind in (
        "fixed",
        "ring",
        "tree",
        "hierarchical",
        "auto",
        "transfer",
        "nccl",
        "measured",
    )
)
IN_HALVES = ("ring", "hierarchical", "nccl_ring")
"""Algorithms that are a reduce-scatter and an all-gather of the same time."""

Codes = NDArray[np.int8]
Mask = NDArray[np.bool_]


class Exchange(NamedTuple):
    """(points,) the all-reduce of a whole message.

    latency_ms, bandwidth_ms  their sum is the time; of fixed and measured all is bandwidth_ms
    has_parts                 whether the two are told apart
    compression_ms            to compress and restore, beside them
    algorithm                 position in ALGORITHMS: the fastest where there is a choice
    """

    latency_ms: Floats
    bandwidth_ms: Floats
    has_parts: NDArray[np.bool_]
    compression_ms: Floats
    algorithm: Codes

    @property
    def allreduce_ms(self) -> Floats:
        """(points,) the time of the whole message, without compression."""
        return self.latency_ms + self.bandwidth_ms


def exchange_of(columns: Columns) -> Exchange:
    """The all-reduce of the whole message at every point; NaN where its inputs are missing."""
    return _with_measured(columns, _exchange(columns, tuple(_TIMES)))


def part_ms(columns: Columns, share: Floats, exchange: Exchange | None = None) -> Floats:
    """(…, points) time of a share, (…, points) or (…, 1), of the message by itself.

    Latency is paid by each part in full. The algorithm is the one that is fastest for the whole
    message: an implementation chooses once, not for every bucket. A fixed time is divided in
    proportion; a measured one is that of so many bytes.
    """
    whole = exchange_of(columns) if exchange is None else exchange
    parts: Floats = whole.latency_ms + share * whole.bandwidth_ms
    rows = np.flatnonzero(columns["communication.kind"] == MEASURED)
    if len(rows):
        parts = np.array(np.broadcast_to(parts, np.broadcast_shapes(parts.shape, share.shape)))
        wide = np.broadcast_to(share, parts.shape)[..., rows]
        part = columns.part(rows)
        parts[..., rows] = measured_ms(part, wide * message_bytes(part))
    return parts


def half_exchange_of(columns: Columns) -> Exchange:
    """One all-gather, or reduce-scatter, of the whole message: half of the all-reduce.

    Of ring, hierarchical and NCCL's ring; auto chooses among these. NaN for all others, which
    have no halves: rules refuse them.
    """
    whole = _exchange(columns, IN_HALVES)
    latency, bandwidth = (
        np.where(whole.has_parts, part / 2, np.nan)
        for part in (whole.latency_ms, whole.bandwidth_ms)
    )
    return whole._replace(latency_ms=latency, bandwidth_ms=bandwidth)


def half_part_ms(columns: Columns, share: Floats, half: Exchange | None = None) -> Floats:
    """(…, points) one all-gather, or reduce-scatter, of a share of the message by itself."""
    whole = half_exchange_of(columns) if half is None else half
    parts: Floats = whole.latency_ms + share * whole.bandwidth_ms
    return parts


def _exchange(columns: Columns, names: tuple[str, ...]) -> Exchange:
    """The fastest of the named algorithms among those that each point allows."""
    kinds = columns["communication.kind"]
    if (kinds == FIXED).all():
        return _fixed(columns)
    found = _fixed(columns)
    found = found._replace(
        latency_ms=np.where(kinds == FIXED, 0.0, np.nan),
        bandwidth_ms=np.where(kinds == FIXED, found.bandwidth_ms, np.nan),
        compression_ms=_compression_ms(columns),
    )
    for name in names:
        allowed, times = _ALLOWED[name](columns), _TIMES[name]
        if allowed.any():
            found = _faster(found, ALGORITHMS.index(name), allowed, times(columns))
    return found


def _fixed(columns: Columns) -> Exchange:
    """(points,) what `fixed` costs; 0 of other kinds."""
    nothing = np.zeros(columns.num_points)
    return Exchange(
        latency_ms=nothing,
        bandwidth_ms=np.nan_to_num(columns["communication.allreduce_ms"], nan=0.0),
        has_parts=np.zeros(columns.num_points, dtype=np.bool_),
        compression_ms=nothing,
        algorithm=np.full(columns.num_points, ALGORITHMS.index("fixed"), dtype=np.int8),
    )


def _faster(found: Exchange, code: int, allowed: Mask, times: MessageTimes) -> Exchange:
    """What was found so far, or the candidate where it is allowed and faster or the first."""
    sooner = times.latency_ms + times.bandwidth_ms < found.allreduce_ms
    better = allowed & (sooner | ~found.has_parts)
    return found._replace(
        latency_ms=np.where(better, times.latency_ms, found.latency_ms),
        bandwidth_ms=np.where(better, times.bandwidth_ms, found.bandwidth_ms),
        has_parts=found.has_parts | better,
        algorithm=np.where(better, np.int8(code), found.algorithm),
    )


def _with_measured(columns: Columns, found: Exchange) -> Exchange:
    """The same, and the measured points' times."""
    rows = np.flatnonzero(columns["communication.kind"] == MEASURED)
    if not len(rows):
        return found
    part = columns.part(rows)
    found.latency_ms[rows] = 0.0
    found.bandwidth_ms[rows] = measured_ms(part, message_bytes(part))
    found.algorithm[rows] = ALGORITHMS.index("measured")
    return found


def _compression_ms(columns: Columns) -> Floats:
    """(points,) what compression costs; a single rank has nothing to compress."""
    kinds = columns["communication.kind"]
    exchanges = (kinds == MEASURED) | (num_ranks(columns) > 1)
    return np.where((kinds != FIXED) & exchanges, columns["communication.compression_ms"], 0.0)


def _only(kind: int) -> Callable[[Columns], Mask]:
    def allowed(columns: Columns) -> Mask:
        found: Mask = columns["communication.kind"] == kind
        return found

    return allowed


def _ring(columns: Columns) -> Mask:
    found: Mask = np.isin(columns["communication.kind"], (RING, AUTO))
    return found


def _tree(columns: Columns) -> Mask:
    found: Mask = np.isin(columns["communication.kind"], (TREE, AUTO))
    return found


def _hierarchical(columns: Columns) -> Mask:
    """Auto: where there is a link within nodes and the ranks fill whole ones."""
    kinds = columns["communication.kind"]
    can_choose = (kinds == AUTO) & has_intra_link(columns) & fills_nodes(columns)
    allowed: Mask = (kinds == HIERARCHICAL) | can_choose
    return allowed


def _nccl_but(other: int) -> Callable[[Columns], Mask]:
    """Of NCCL, where it is not told to use the other algorithm."""

    def allowed(columns: Columns) -> Mask:
        found: Mask = (columns["communication.kind"] == NCCL) & (
            columns["communication.algorithm"] != other
        )
        return found

    return allowed


_TIMES = {
    "ring": formulas.ring,
    "tree": formulas.tree,
    "hierarchical": formulas.hierarchical,
    "transfer": formulas.transfer,
    "nccl_ring": nccl_ring,
    "nccl_tree": nccl_tree,
}
_ALLOWED = {
    "ring": _ring,
    "tree": _tree,
    "hierarchical": _hierarchical,
    "transfer": _only(TRANSFER),
    "nccl_ring": _nccl_but(TREE_ONLY),
    "nccl_tree": _nccl_but(RING_ONLY),
}
