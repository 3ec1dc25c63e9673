"""Failures that stop the job, and checkpoints: how much of the time is left for steps.

Exact renewal, design page "The model", section 8. With the job's failure rate L, work tau between
checkpoints, write time w and R from a failure until the job runs again (failures may strike
meanwhile), the share of time in which steps are done is

    synchronous    L tau exp(-L R) / (exp(L (tau + w)) - 1)
    asynchronous   L tau exp(-L (R + w)) / (exp(L tau) - 1)         tau >= w

and the best tau is [1 + W0(-exp(-1 - L w))] / L (W0: Lambert's function), or w. Young's
sqrt(2 w / L) is the first order of the former.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from service.model.active import HOURS_PER_DAY, has_failures
from service.model.columns import Columns, Floats
from service.model.times import num_used

SECONDS_PER_DAY = HOURS_PER_DAY * 3600.0
NODES_OF_A_RATE = 1000.0
OPTIMAL = 0.0
ASYNCHRONOUS = 2
# Below this L w, Lambert's function has lost half of its digits and its series has them all.
SMALL_WRITE = 1e-6


class TimeRatios(NamedTuple):
    """(points,) each; without failures share 1 and NaN in the others.

    share                  of the time in which steps are done
    failures_per_day       that stop the job
    checkpoint_interval_s  work between checkpoints
    """

    share: Floats
    failures_per_day: Floats
    checkpoint_interval_s: Floats


def time_ratios(columns: Columns) -> TimeRatios:
    """What failures and checkpoints leave of the time."""
    nothing = np.full(columns.num_points, np.nan)
    rows = np.flatnonzero(has_failures(columns))
    found = TimeRatios(np.ones(columns.num_points), nothing, nothing.copy())
    if len(rows):
        for values, part in zip(found, _of_failing(columns.part(rows)), strict=True):
            values[rows] = part
    return found


def failure_columns(ratios: TimeRatios) -> dict[str, Floats]:
    """The output columns beside the time ratio."""
    return {
        "failures_per_day": ratios.failures_per_day,
        "checkpoint_interval_s": ratios.checkpoint_interval_s,
    }


def job_failures_per_day(columns: Columns) -> Floats:
    """(points,) by nodes (a node that is held in part fails like a whole one) or by GPUs."""
    used = num_used(columns)
    by_node = columns["failures.failures_per_1000_node_days"] / NODES_OF_A_RATE
    by_gpu = HOURS_PER_DAY / columns["failures.mtbf_hours_per_gpu"]
    nodes = np.ceil(used / columns["gpus_per_node"])
    return np.where(np.isnan(by_gpu), by_node * nodes, by_gpu * used)


def optimal_interval_s(rate: Floats, write_s: Floats) -> Floats:
    """Best work between synchronous checkpoints, s; `rate` per second.

    Infinite where nothing fails, 0 where writing costs nothing.
    """
    product = rate * write_s
    argument: Floats = -np.exp(-1 - product)
    # The stubs know numbers only.
    exact = 1 + special.lambertw(argument).real  # type: ignore[call-overload]
    # 1 + W0 = p - p^2/3 + 11/72 p^3 - 43/540 p^4 …, p = sqrt(2 (1 - exp(-L w))): Corless et al.,
    # On the Lambert W function, 1996.
    p = np.sqrt(-2 * np.expm1(-product))
    series = p * (1 - p * (1 / 3 - p * (11 / 72 - p * 43 / 540)))
    with np.errstate(divide="ignore", invalid="ignore"):
        best: Floats = np.where(product < SMALL_WRITE, series, exact) / rate
    return np.where(rate > 0, best, np.where(write_s > 0, np.inf, 0.0))


def share_of_time(rate: Floats, interval_s: Floats, pause_s: Floats, away_s: Floats) -> Floats:
    """(points,) the share of the time in which steps are done.

    rate        failures of the job per second
    interval_s  work between checkpoints; may be infinite where nothing fails
    pause_s     the job stands still while a checkpoint is written
    away_s      lost by every failure beside the work since the last checkpoint
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_work = np.where(interval_s > 0, 1 / (1 + pause_s / interval_s), pause_s == 0)
        exponent = rate * (interval_s + pause_s)
        # x / (exp(x) - 1) is 1 at 0.
        of_cycle = np.where(exponent > 0, exponent / np.expm1(exponent), 1.0)
    share: Floats = of_work * of_cycle * np.exp(-rate * away_s)
    return share


def _of_failing(columns: Columns) -> TimeRatios:
    per_day = job_failures_per_day(columns)
    rate = per_day / SECONDS_PER_DAY
    write = columns["failures.checkpoint_write_s"]
    away = columns["failures.detection_s"] + columns["failures.restart_s"]
    asynchronous = columns["failures.asynchronous_checkpoint"] == ASYNCHRONOUS
    given = columns["failures.checkpoint_interval_s"]
    best = np.where(asynchronous, write, optimal_interval_s(rate, write))
    interval = np.where(given == OPTIMAL, best, given)
    share = share_of_time(
        rate,
        interval,
        np.where(asynchronous, 0.0, write),
        away + np.where(asynchronous, write, 0.0),
    )
    return TimeRatios(share, per_day, np.where(np.isinf(interval), np.nan, interval))
