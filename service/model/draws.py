"""One reproducible step of one reproducible cluster, rank by rank."""

from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from service.model.active import num_backup
from service.model.columns import Columns, columns_of
from service.model.drawn_pipelines import drawn_step, without_slowest
from service.model.fields import Scenario
from service.model.laws.law import Floats
from service.model.piped_fleets import with_hidden_load
from service.model.rank_factors import (
    first_ranks_slow,
    lasting_factors,
    replica_factors,
    step_factors,
)
from service.model.step_lines import step_lines_of
from service.model.times import compute_ms, num_abandoned, num_held, outside_ms
from service.model.waiting import waits_every_step

_HOURS_PER_DAY = 24


class RankRow(Struct, frozen=True, kw_only=True):
    """One GPU in this step."""

    rank: int
    speed_fraction: float
    compute_ms: Annotated[
        float, Meta(description="How long it works; in a pipeline on its own stage.")
    ]
    wait_ms: Annotated[
        float,
        Meta(
            description="From there to the end of the slowest GPU; in a pipeline what it idles "
            "until the slowest replica has ended its pass."
        ),
    ]


class RankDraw(Struct, frozen=True, kw_only=True):
    """A single drawn step; the slowest ranks come first, equal ones by rank.

    What the step takes is null where GPUs do not wait for each other in every step: it depends on
    the steps before.
    """

    ranks: list[RankRow]
    num_ranks: int
    num_left_out: int
    median_compute_ms: float
    slowest_compute_ms: float
    slowest_to_median_gap_ms: float
    slowest_replica: Annotated[
        int | None, Meta(description="That the step waits for; null without a pipeline.")
    ]
    slowest_makespan_ms: Annotated[float | None, Meta(description="Of its pass; likewise.")]
    step_ms: float | None
    efficiency_fraction: float | None
    gpu_hours_lost_per_day: float | None


class _Waited(NamedTuple):
    """Who works in this step, (ranks,) each, and what they wait for.

    last      what a rank waits until the end of, ms; slowest the longest compute waited for
    replica   the slowest one of a pipeline
    step      its length, None without a barrier
    """

    rank: NDArray[np.intp]
    speed: Floats
    compute: Floats
    last: float
    slowest: float
    replica: int | None
    step: float | None


def draw_ranks(scenario: Scenario, limit: int = 64) -> RankDraw:
    """Draw one step and report its `limit` slowest ranks of those that take part.

    Spares and evicted GPUs, the persistently slowest, stand by; a step does not wait for the last
    `synchronization.count` ranks, of pipelines: replicas. Raises TooManyOperationsError where
    single operations of too many GPUs vary.
    """
    one = columns_of(scenario)
    waited = _of_gpus(scenario, one) if scenario.pipeline is None else _of_pipelines(scenario, one)
    compute = waited.compute
    rows = _slowest_ranks(compute, min(limit, len(compute)))
    median = float(np.median(compute))
    held = float(num_held(one)[0])
    efficiency = None
    if waited.step is not None:
        ideal = float(outside_ms(one)[0]) + float(compute_ms(one)[0])
        useful = len(compute) - float(num_abandoned(one)[0])
        efficiency = ideal / waited.step * (useful / held)
    return RankDraw(
        ranks=[
            RankRow(
                rank=int(waited.rank[row]),
                speed_fraction=float(waited.speed[row]),
                compute_ms=float(compute[row]),
                # A rank that is not waited for does not wait either.
                wait_ms=max(waited.last - float(compute[row]), 0.0),
            )
            for row in rows.tolist()
        ],
        num_ranks=len(compute),
        num_left_out=len(compute) - len(rows),
        median_compute_ms=median,
        slowest_compute_ms=waited.slowest,
        slowest_to_median_gap_ms=waited.slowest - median,
        slowest_replica=waited.replica,
        slowest_makespan_ms=None if waited.replica is None else waited.last,
        step_ms=waited.step,
        efficiency_fraction=efficiency,
        gpu_hours_lost_per_day=None
        if efficiency is None
        else _HOURS_PER_DAY * held * (1 - efficiency),
    )


def _of_gpus(scenario: Scenario, one: Columns) -> _Waited:
    speed = first_ranks_slow(scenario)
    lasting = lasting_factors(scenario, speed)
    working = without_slowest(lasting, scenario.num_spare_gpus + scenario.num_evicted_gpus)
    factor = lasting * step_factors(scenario, len(lasting))
    factor *= replica_factors(scenario, len(lasting), scenario.tensor_parallel_size)
    compute = float(compute_ms(one)[0]) * factor[working]
    backup = int(num_backup(one)[0])
    last = float(np.partition(compute, -1 - backup)[-1 - backup] if backup else compute.max())
    step = _step_ms(one, last)
    return _Waited(working, speed[working], compute, last, last, None, step)


def _of_pipelines(scenario: Scenario, one: Columns) -> _Waited:
    drawn = drawn_step(scenario)
    slowest = drawn.slowest()
    compute = drawn.busy_ms()
    step = None
    if waits_every_step(one)[0]:
        step = float(with_hidden_load(one, np.array([slowest.makespan_ms]))[0])
    return _Waited(
        rank=drawn.rank,
        speed=drawn.speed,
        compute=compute,
        last=slowest.makespan_ms,
        slowest=float(compute.max()),
        replica=slowest.replica,
        step=step,
    )


def _step_ms(one: Columns, slowest_ms: float) -> float | None:
    """Of one point, with what is hidden behind its slowest GPU; None without a barrier."""
    if not waits_every_step(one)[0]:
        return None
    nominal = float(compute_ms(one)[0])
    factor = step_lines_of(one).step.value(np.array([slowest_ms / nominal]))
    return float(outside_ms(one)[0]) + nominal * float(factor[0])


def _slowest_ranks(compute: Floats, limit: int) -> NDArray[np.intp]:
    """The `limit` ranks of the largest times, slowest first, ties by rank."""
    if limit == 0:
        return np.empty(0, dtype=np.intp)
    boundary = np.partition(compute, -limit)[-limit]
    above = np.flatnonzero(compute > boundary)
    at = np.flatnonzero(compute == boundary)[: limit - len(above)]
    ranks = np.concatenate([above, at])
    return ranks[np.lexsort((ranks, -compute[ranks]))]
