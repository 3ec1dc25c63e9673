"""The settings that a kind of remedy is tried with: those asked for, else default ones."""

from collections.abc import Callable, Iterator

import numpy as np

from service.model.columns import columns_of
from service.model.exchange.best_buckets import best_buckets
from service.model.fields import MAX_STANDING_BY, Scenario
from service.model.parts.synchronization import MAX_BACKUP_WORKERS
from service.model.remedy.pipeline_choices import (
    of_interleaving,
    of_microbatches,
    of_schedules,
    of_stages,
)
from service.model.remedy.remedy_kinds import COUNTED, Kind, Remedy, RemedyRequest
from service.model.remedy.remedy_overrides import num_slow

FRACTIONS_OF_HOURS = (0.5, 0.25)
FRACTIONS_OF_CV = (0.5, 0.0)
BUCKET_COUNTS = (8, 25)
LOCAL_STEPS = (10, 100, 500)
COMPRESSION_RATIOS = (2.0, 4.0)
# More than one GPU in so many is no longer a remedy but another cluster.
ONE_IN = 16
LASTING = ("persistent", "node")
TELL_APART = (*LASTING, "transient", "replica", "spikes", "episodes")
"""Sources that make some GPUs slower than others, for good or for a step."""
MOST_TRIED = 64


def with_settings(scenario: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    """Remedies of one kind, with each of the settings asked for, or the default ones."""
    kind = request.kind
    if kind in COUNTED:
        for count in request.counts or _counts(scenario, kind):
            yield Remedy(kind=kind, count=count)
    elif kind in _SETTINGS_OF:
        yield from _SETTINGS_OF[kind](scenario, request)
    else:
        yield Remedy(kind=kind)


def _of_detection(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    for hours in request.mean_hours or ():
        yield Remedy(kind=request.kind, mean_hours=hours)
    for fraction in () if request.mean_hours else FRACTIONS_OF_HOURS:
        yield Remedy(kind=request.kind, hours_fraction=fraction)


def _of_balance(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    for fraction in request.cv_fractions or FRACTIONS_OF_CV:
        yield Remedy(kind=request.kind, cv_fraction=fraction)


def _of_buckets(scenario: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    contention = request.contention_fraction
    for number in request.num_buckets or _bucket_counts(scenario):
        yield Remedy(kind=request.kind, num_buckets=number, contention_fraction=contention)


def _bucket_counts(scenario: Scenario) -> list[int]:
    """The customary ones, and the best one for the slowest kind where the latency is known."""
    slowest = max((1 / group.speed_fraction for group in scenario.slow_groups), default=1.0)
    best = best_buckets(columns_of(scenario), np.array([slowest])).num_buckets[0]
    return list(BUCKET_COUNTS) if np.isnan(best) else sorted({*BUCKET_COUNTS, int(best)})


def _of_local_steps(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    extra = request.extra_steps_fraction
    for steps in request.steps or LOCAL_STEPS:
        yield Remedy(kind=request.kind, steps=steps, extra_steps_fraction=extra)


def _of_delay(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    yield Remedy(kind=request.kind, extra_steps_fraction=request.extra_steps_fraction)


def _of_hierarchy(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    yield Remedy(kind=request.kind, intra_link=request.intra_link)


def _of_compression(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    spent = request.compression_ms
    for ratio in request.compression_ratios or COMPRESSION_RATIOS:
        yield Remedy(kind=request.kind, compression_ratio=ratio, compression_ms=spent)


_SETTINGS_OF: dict[Kind, Callable[[Scenario, RemedyRequest], Iterator[Remedy]]] = {
    "faster_detection": _of_detection,
    "balance_data": _of_balance,
    "overlap_buckets": _of_buckets,
    "local_steps": _of_local_steps,
    "delayed_update": _of_delay,
    "hierarchical_collective": _of_hierarchy,
    "compress_gradients": _of_compression,
    "more_microbatches": of_microbatches,
    "interleave_stages": of_interleaving,
    "change_schedule": of_schedules,
    "fewer_stages": of_stages,
}


def _counts(scenario: Scenario, kind: Kind) -> list[int]:
    """1, 2, 4, … GPUs, and all slow ones at once; or whole replicas that are pipelines."""
    slow, unit = num_slow(scenario), _unit(scenario, kind)
    most = min(MOST_TRIED, max(1, scenario.num_gpus // unit // ONE_IN))
    if not _tell_apart(scenario, kind):
        # Of equal GPUs no more than the slow ones are worth it.
        most = min(most, slow)
    step = unit if kind == "evict_worst" else 1
    counts = {step << power for power in range(most.bit_length())}
    limit = MAX_BACKUP_WORKERS if kind == "backup_workers" else MAX_STANDING_BY
    slow = -(-slow // step) * step
    # Without any the reason why is still to be told.
    return [count for count in sorted(counts | ({slow} if slow else set())) if count <= limit] or [
        step
    ]


def _tell_apart(scenario: Scenario, kind: Kind) -> bool:
    """Whether something random makes some slower than others."""
    if kind != "backup_workers":
        return any(getattr(scenario.variability, source) is not None for source in LASTING)
    jitter = None if scenario.pipeline is None else scenario.pipeline.per_op_jitter
    varied = [getattr(scenario.variability, source) for source in TELL_APART]
    return any(part is not None for part in (*varied, jitter))


def _unit(scenario: Scenario, kind: Kind) -> int:
    """GPUs that are evicted, or not waited for, together."""
    if scenario.pipeline is None or kind == "hot_spares":
        return 1
    return scenario.pipeline.stages * scenario.tensor_parallel_size
