"""One reproducible step of one reproducible cluster, rank by rank."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.model.active import num_backup
from service.model.columns import Columns, columns_of
from service.model.fields import Scenario
from service.model.laws.law import Floats
from service.model.rank_factors import cluster_factors, step_factors
from service.model.step_lines import step_lines_of
from service.model.times import compute_ms, num_held, outside_ms
from service.model.waiting import waits_every_step

_HOURS_PER_DAY = 24


class RankRow(Struct, frozen=True, kw_only=True):
    """One GPU in this step."""

    rank: int
    speed_fraction: float
    compute_ms: float
    wait_ms: float


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
    step_ms: float | None
    efficiency_fraction: float | None
    gpu_hours_lost_per_day: float | None


def draw_ranks(scenario: Scenario, limit: int = 64) -> RankDraw:
    """Draw one step and report its `limit` slowest ranks of those that take part.

    Spares and evicted GPUs, the persistently slowest, stand by; a step does not wait for the last
    `synchronization.count` ranks.
    """
    speed, lasting = cluster_factors(scenario)
    working = _working(lasting, scenario.num_spare_gpus + scenario.num_evicted_gpus)
    one = columns_of(scenario)
    nominal = float(compute_ms(one)[0])
    compute = nominal * (lasting * step_factors(scenario))[working]
    rows = _slowest_ranks(compute, min(limit, len(compute)))
    backup = int(num_backup(one)[0])
    last = float(np.partition(compute, -1 - backup)[-1 - backup]) if backup else compute.max()
    median = float(np.median(compute))
    step = _step_ms(one, float(last))
    held = float(num_held(one)[0])
    efficiency = None
    if step is not None:
        ideal = float(outside_ms(one)[0]) + nominal
        efficiency = ideal / step * ((len(compute) - backup) / held)
    return RankDraw(
        ranks=[
            RankRow(
                rank=int(working[row]),
                speed_fraction=float(speed[working[row]]),
                compute_ms=float(compute[row]),
                # A rank that is not waited for does not wait either.
                wait_ms=max(float(last) - float(compute[row]), 0.0),
            )
            for row in rows.tolist()
        ],
        num_ranks=len(compute),
        num_left_out=len(compute) - len(rows),
        median_compute_ms=median,
        slowest_compute_ms=float(last),
        slowest_to_median_gap_ms=float(last) - median,
        step_ms=step,
        efficiency_fraction=efficiency,
        gpu_hours_lost_per_day=None
        if efficiency is None
        else _HOURS_PER_DAY * held * (1 - efficiency),
    )


def _step_ms(one: Columns, slowest_ms: float) -> float | None:
    """Of one point, with what is hidden behind its slowest GPU; None without a barrier."""
    if not waits_every_step(one)[0]:
        return None
    nominal = float(compute_ms(one)[0])
    factor = step_lines_of(one).step.value(np.array([slowest_ms / nominal]))
    return float(outside_ms(one)[0]) + nominal * float(factor[0])


def _working(lasting: Floats, num_removed: int) -> NDArray[np.intp]:
    """The ranks without those slowest in what lasts; of equal ones the last stand by."""
    if num_removed == 0:
        return np.arange(len(lasting))
    order = np.lexsort((np.arange(len(lasting)), lasting))
    return np.sort(order[: len(lasting) - num_removed])


def _slowest_ranks(compute: Floats, limit: int) -> NDArray[np.intp]:
    """The `limit` ranks of the largest times, slowest first, ties by rank."""
    if limit == 0:
        return np.empty(0, dtype=np.intp)
    boundary = np.partition(compute, -limit)[-limit]
    above = np.flatnonzero(compute > boundary)
    at = np.flatnonzero(compute == boundary)[: limit - len(above)]
    ranks = np.concatenate([above, at])
    return ranks[np.lexsort((ranks, -compute[ranks]))]
