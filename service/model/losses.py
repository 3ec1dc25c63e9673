"""From slowest factors to steps, losses, their causes and the work that is left.

Definitions: design page "The model", sections 2, 3 and 4; names: "Decisions", 1 and 2.
"""

from typing import NamedTuple

import numpy as np

from service.model.active import HOURS_PER_DAY, num_backup, num_removed
from service.model.causes import CAUSES, Factors
from service.model.columns import Columns, Floats
from service.model.nominal_steps import NominalStep
from service.model.times import (
    compute_ms,
    extra_steps,
    num_abandoned,
    num_held,
    num_used,
    outside_ms,
)

# Temporaries of so many points stay in cache, and NumPy's own time per call is small.
BLOCK_POINTS = 8192
MS_PER_HOUR = 3.6e6
MS_PER_DAY = HOURS_PER_DAY * MS_PER_HOUR
STEPS_OF_WORK = 1000.0
DUST = 1e-12
"""Of a step: a cause that takes less is the round-off of a difference."""


class Step(NamedTuple):
    """The times behind a loss, (points,) each.

    outside, compute  ms of a step at nominal speed, beside and inside the barrier, one by one
    mean              expected step, ms
    per_work          T_0: ms of step for each step of work of the GPUs held
    ideal             ms
    time_ratio        share of the time left for steps
    used, held        GPUs that take part, and that are paid for
    """

    outside: Floats
    compute: Floats
    mean: Floats
    per_work: Floats
    ideal: Floats
    time_ratio: Floats
    used: Floats
    held: Floats

    @property
    def efficiency(self) -> Floats:
        """(points,) ideal over expected step, times the time ratio."""
        return self.time_ratio * self.ideal / self.per_work


def step_of(columns: Columns, mean: Floats, time_ratio: Floats) -> Step:
    """The step whose slowest factor is expected to be `mean`, (points,)."""
    outside, compute = outside_ms(columns), compute_ms(columns)
    used, held = num_used(columns), num_held(columns)
    expected = outside + compute * mean
    return Step(
        outside=outside,
        compute=compute,
        mean=expected,
        per_work=expected * (held / (used - num_abandoned(columns))) * (1 + extra_steps(columns)),
        ideal=outside + compute,
        time_ratio=time_ratio,
        used=used,
        held=held,
    )


def loss_columns(
    columns: Columns, factors: Factors, nominal: NominalStep, time_ratio: Floats
) -> dict[str, Floats]:
    """Steps, losses, causes and work as output columns, (points,) each."""
    # Also where there is no point: the columns exist all the same.
    if columns.num_points <= BLOCK_POINTS:
        # Some are one array under two names.
        block = _block(columns, factors, nominal, time_ratio)
        return {name: values.copy() for name, values in block.items()}
    found: dict[str, Floats] = {}
    for start in range(0, columns.num_points, BLOCK_POINTS):
        rows = slice(start, start + BLOCK_POINTS)
        part = _block(columns.part(rows), factors.taken(rows), nominal.part(rows), time_ratio[rows])
        for name, values in part.items():
            if name not in found:
                found[name] = np.empty(columns.num_points)
            found[name][rows] = values
    return found


def _block(
    columns: Columns, factors: Factors, nominal: NominalStep, time_ratio: Floats
) -> dict[str, Floats]:
    of_step = factors.step
    step = step_of(columns, of_step.mean, time_ratio)
    outside, compute = step.outside, step.compute
    per_day = HOURS_PER_DAY * step.held
    days = columns["period_days"]
    available = per_day * days
    causes = _causes(columns, step, factors, nominal, available)
    used_share = step.used / step.held
    lost = available * (1 - step.efficiency)
    if (time_ratio == 1).all():
        # Differences of steps, not of ratios: for small losses these keep their digits.
        lost = available / step.per_work * (step.per_work - step.ideal)
    above_nominal = np.where(
        nominal.is_serial, lost, available - available * time_ratio * nominal.ms / step.per_work
    )
    exposed = _exposed(columns, step, factors, nominal)
    return {
        "ideal_step_ms": step.ideal,
        "step_mean_ms": step.mean,
        "slowest_compute_mean_ms": compute * factors.slowest.mean,
        "step_p50_ms": outside + compute * of_step.quantiles[:, 0],
        "step_p95_ms": outside + compute * of_step.quantiles[:, 1],
        "step_p99_ms": outside + compute * of_step.quantiles[:, 2],
        "efficiency_fraction": step.efficiency,
        "useful_compute_fraction": time_ratio * compute / step.per_work,
        "displayed_utilization_fraction": time_ratio
        * used_share
        * (1.0 - exposed["exposed_load_ms"] / step.mean),
        "time_ratio_fraction": time_ratio,
        "gpu_hours_available_per_day": per_day,
        "gpu_hours_lost_per_day": lost / days,
        "gpu_hours_available": available,
        "gpu_hours_lost": lost,
        "gpu_hours_not_useful": available - causes["gpu_hours_useful"],
        "gpu_hours_above_nominal": above_nominal,
        "gpu_hours_lost_se": available
        * step.efficiency
        * (step.compute / step.mean)
        * factors.mean_se,
        **causes,
        **exposed,
        **_groups(causes, above_nominal),
        **_work(columns, step),
    }


def _exposed(
    columns: Columns, step: Step, factors: Factors, nominal: NominalStep
) -> dict[str, Floats]:
    """Of load and communication, what a step is longer by; without a barrier at nominal speed."""
    load = columns["load_ms"]
    rest = step.outside - load + step.compute * factors.rest
    communication = rest - step.compute * factors.slowest.mean
    communication = np.where(nominal.has_barrier, communication, nominal.exposed_communication_ms)
    # Differences of nearly equal times: their round-off is neither exposed nor hidden.
    communication = np.where(
        nominal.is_serial, nominal.communication_ms, np.maximum(communication, 0.0)
    )
    hidden = np.where(
        nominal.has_barrier, np.maximum(step.mean - rest, 0.0), nominal.exposed_load_ms
    )
    return {
        "exposed_load_ms": np.where(nominal.load_is_hidden, hidden, load),
        "exposed_communication_ms": communication,
    }


def _causes(
    columns: Columns, step: Step, factors: Factors, nominal: NominalStep, available: Floats
) -> dict[str, Floats]:
    """Hours of each cause; they sum to what is available.

    T_0 is what a step of work costs the GPUs held. From there down: without the share of the
    spares, without the user's own extra steps, without backup workers, without one source after the
    other, without a pipeline's handing on, uneven stages and bubbles, without communication,
    without load.
    """
    per_ms = available * step.time_ratio / step.per_work
    of_all = step.mean * (step.used / (step.used - num_abandoned(columns)))
    no_spares = of_all * (1 + extra_steps(columns))
    hours = {
        "spares": per_ms * (step.per_work - no_spares),
        "failures": available * (1 - step.time_ratio),
        "extra_steps": per_ms * of_all * extra_steps(columns),
    }
    last = of_all
    backup, may_rise = num_backup(columns) > 0, num_removed(columns) > 0
    for cause, factor in zip(CAUSES, factors.without, strict=True):
        after = step.outside + step.compute * factor
        if cause == "backup_workers":
            after = np.where(backup, after, last)
        else:
            after = np.where(may_rise, after, np.minimum(after, last))
        # What is left of the difference of two equal steps is no cause.
        is_dust = np.abs(last - after) <= DUST * step.mean
        hours[cause] = np.where(is_dust, 0.0, per_ms * (last - after))
        last = after
    hours["pipeline_bubble"] = per_ms * nominal.bubble_ms
    hours["pipeline_imbalance"] = per_ms * nominal.imbalance_ms
    hours["pipeline_p2p"] = per_ms * nominal.p2p_ms
    hours["communication"] = per_ms * nominal.exposed_communication_ms
    hours["load"] = per_ms * nominal.exposed_load_ms
    hours["useful"] = per_ms * step.compute
    hours["communication_latency"] = per_ms * nominal.exposed_latency_ms
    hours["communication_bandwidth"] = per_ms * nominal.exposed_bandwidth_ms
    return {f"gpu_hours_{cause}": values for cause, values in hours.items()}


def _groups(causes: dict[str, Floats], lost: Floats) -> dict[str, Floats]:
    """Of what is lost against the same job at nominal speed: what overlap gives is no cause."""
    by_eviction = sum(
        causes[f"gpu_hours_{cause}"] for cause in ("episodes", "persistent", "node", "slow_groups")
    )
    by_waiting = causes["gpu_hours_transient"] + causes["gpu_hours_spikes"]
    return {
        "gpu_hours_reducible_by_eviction": np.asarray(by_eviction),
        "gpu_hours_reducible_by_waiting": by_waiting,
        "gpu_hours_irreducible": _rest(lost, by_eviction + by_waiting),
    }


def _rest(lost: Floats, named: Floats) -> Floats:
    """What is left of the loss; less than the round-off of the difference is nothing."""
    rest = lost - named
    rest[np.abs(rest) <= 1e-9 * np.abs(lost)] = 0.0
    return rest


def _work(columns: Columns, step: Step) -> dict[str, Floats]:
    """The fixed-work view; NaN where the scenario says no number of steps."""
    steps = columns["total_steps"]
    hours_per_step = step.used * step.per_work / step.time_ratio / MS_PER_HOUR
    each = step.mean * step.used / (step.used - num_abandoned(columns)) / step.time_ratio
    each *= 1 + extra_steps(columns)
    return {
        "days_to_finish": steps * each / MS_PER_DAY,
        "gpu_hours_for_total_steps": steps * hours_per_step,
        "gpu_hours_extra_for_total_steps": steps
        * (hours_per_step - step.used * step.ideal / MS_PER_HOUR),
        "gpu_hours_per_1000_steps": STEPS_OF_WORK * hours_per_step,
    }
