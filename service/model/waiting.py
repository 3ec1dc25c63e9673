"""Who waits for whom at each point: which mathematics its steps need."""

import numpy as np
from numpy.typing import NDArray

from service.model.active import is_active, spikes_are_active
from service.model.columns import Columns, Floats, kept_with_columns
from service.model.distributions import FAMILIES
from service.model.known_rounds import rounds_are_known
from service.model.leaves import leaves
from service.model.stage_sizes import has_pipeline

Mask = NDArray[np.bool_]

_SYNCHRONIZATIONS = leaves()["synchronization.kind"].labels
_OVERLAPS = leaves()["overlap.kind"].labels
LOCAL_STEPS, BOUNDED_STALENESS, DELAYED_UPDATE, BACKUP_WORKERS = (
    1 + _SYNCHRONIZATIONS.index(kind)
    for kind in ("local_steps", "bounded_staleness", "delayed_update", "backup_workers")
)
NO_OVERLAP, BUCKETS, FSDP = (1 + _OVERLAPS.index(kind) for kind in ("none", "buckets", "fsdp"))
_ON = 2
_NORMAL = FAMILIES.index("normal")


@kept_with_columns
def hides_load(columns: Columns) -> Mask:
    """(points,) whether there is a load and it is hidden behind the step before."""
    if columns.lacks("overlap.load_prefetch"):
        return np.zeros(columns.num_points, dtype=np.bool_)
    hides: Mask = (columns["overlap.load_prefetch"] == _ON) & (columns["load_ms"] > 0)
    return hides


@kept_with_columns
def is_local(columns: Columns) -> Mask:
    """(points,) whether GPUs step by themselves between exchanges."""
    local: Mask = columns["synchronization.kind"] == LOCAL_STEPS
    return local


@kept_with_columns
def is_stale(columns: Columns) -> Mask:
    """(points,) whether updates are seen later, be it by no step and no time."""
    stale: Mask = np.isin(columns["synchronization.kind"], (BOUNDED_STALENESS, DELAYED_UPDATE))
    return stale


@kept_with_columns
def staleness(columns: Columns) -> Floats:
    """(points,) steps by which a GPU may be ahead of the slowest; 0 with a barrier."""
    kind = columns["synchronization.kind"]
    bounded = np.where(kind == BOUNDED_STALENESS, columns["synchronization.staleness"], 0.0)
    return np.where(kind == DELAYED_UPDATE, 1.0, bounded)


@kept_with_columns
def delay_ms(columns: Columns) -> Floats:
    """(points,) until an update is seen, beside its communication."""
    return np.where(is_stale(columns), columns["synchronization.delay_ms"], 0.0)


@kept_with_columns
def interval_steps(columns: Columns) -> Floats:
    """(points,) steps from one exchange to the next: H / P of local steps, else 1."""
    interval = columns["synchronization.steps"] / columns["synchronization.fragments"]
    return np.where(is_local(columns), interval, 1.0)


@kept_with_columns
def is_blocking(columns: Columns) -> Mask:
    """(points,) whether all GPUs wait for an exchange that begins when the last of them is done."""
    overlapped = is_local(columns) & (
        (columns["synchronization.overlap_steps"] > 0)
        | (columns["synchronization.release_fraction"] < 1)
    )
    no_overlap = columns["overlap.kind"] == NO_OVERLAP
    blocking: Mask = no_overlap & ~overlapped & (staleness(columns) == 0)
    return blocking


@kept_with_columns
def waits_every_step(columns: Columns) -> Mask:
    """(points,) whether no GPU begins a step before all have ended the last one."""
    whole = columns["overlap.kind"] != NO_OVERLAP
    every_step = (interval_steps(columns) == 1) & (staleness(columns) == 0)
    waits: Mask = every_step & (is_blocking(columns) | whole)
    return waits


@kept_with_columns
def is_serial(columns: Columns) -> Mask:
    """(points,) whether a step is load, the slowest GPU and the exchange, one after the other."""
    in_parts = is_local(columns) & (columns["synchronization.fragments"] > 1)
    no_delay: Mask = delay_ms(columns) == 0
    one_by_one = is_blocking(columns) & no_delay & ~in_parts & ~hides_load(columns)
    return one_by_one & waits_every_step(columns)


@kept_with_columns
def averages_rounds(columns: Columns) -> Mask:
    """(points,) whether a round is as long as the largest of independent sums of steps.

    So it is where only one factor varies from step to step, for single GPUs, and its mean is known.
    """
    # Hidden loads make steps unlike: the last of a round hides its own behind the exchange.
    several = (interval_steps(columns) > 1) & is_blocking(columns) & ~hides_load(columns)
    if not several.any():
        return several
    transient, replica = is_active(columns, "transient"), is_active(columns, "replica")
    spikes = spikes_are_active(columns)
    correlated = transient & (columns["variability.autocorrelation"] > 0)
    normal = (columns["variability.transient.kind"] == _NORMAL) & ~spikes
    single = (columns["tensor_parallel_size"] == 1) | has_pipeline(columns)
    exact: Mask = (
        several
        & ~is_active(columns, "common")
        & ~(transient & replica)
        & (single | ~(transient | replica | spikes))
        & (normal | ~correlated)
    )
    rows = np.flatnonzero(exact)
    exact[rows] = rounds_are_known(columns.part(rows), interval_steps(columns)[rows])
    return exact


@kept_with_columns
def needs_recursion(columns: Columns) -> Mask:
    """(points,) whether, where something varies from step to step, only a recursion will do."""
    waits_later = is_local(columns) & ~waits_every_step(columns) & ~averages_rounds(columns)
    # Replicas of a pipeline wait for each other at the end of a round, or are refused.
    waits_later &= ~has_pipeline(columns)
    needs: Mask = waits_later | (staleness(columns) > 0)
    return needs
