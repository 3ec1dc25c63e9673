"""Steps, losses, causes and work from given slowest factors: plain arithmetic, checked by hand."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from service.model.causes import CAUSES, Factors
from service.model.columns import Columns, columns_of
from service.model.losses import loss_columns
from service.model.nominal_steps import nominal_of
from service.model.results import ATTRIBUTION_COLUMNS
from service.model.scenario import decode_scenario
from service.model.slowest.barrier import Slowest

OUTSIDE = {
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "period_days": 10,
}
ALWAYS = np.ones(1)


def columns(**changed: Any) -> Columns:
    return columns_of(decode_scenario({"num_gpus": 64, **OUTSIDE, **changed}))


def factors(mean: float, **without: float) -> Factors:
    """The slowest factor, and what it is without a cause and all before it, where it changes."""
    last, rows = mean, []
    for cause in CAUSES:
        last = without.get(cause, last)
        rows.append([last])
    rows[-1] = [1.0]
    slowest = Slowest(
        mean=np.array([mean]),
        quantiles=np.array([[mean, mean + 1, mean + 2]]),
        variance=np.zeros(1),
    )
    return Factors(
        slowest=slowest,
        step=slowest,
        rest=slowest.mean,
        without=np.array(rows),
        mean_se=np.array([0.01]),
    )


def found(point: Columns, given: Factors, time_ratio: float = 1.0) -> dict[str, float]:
    named = loss_columns(point, given, nominal_of(point), time_ratio * ALWAYS)
    return {name: values[0].item() for name, values in named.items()}


def test_every_column_by_hand() -> None:
    # Slow GPUs at half speed: 600 ms; variability makes the slowest 2.1 times the nominal: 630 ms.
    point = columns(slow_groups=[{"count": 4, "speed_fraction": 0.5}], total_steps=1000)
    step, available = 740, 24 * 64 * 10
    shares = {
        "gpu_hours_useful": 300,
        "gpu_hours_transient": 30,
        "gpu_hours_slow_groups": 300,
        "gpu_hours_communication": 80,
        "gpu_hours_load": 30,
        "gpu_hours_lost": 330,
        "gpu_hours_above_nominal": 330,
        "gpu_hours_not_useful": 440,
        "gpu_hours_reducible_by_eviction": 300,
        "gpu_hours_reducible_by_waiting": 30,
    }
    absent = set(ATTRIBUTION_COLUMNS) - set(shares)
    hours = 64 * 740 * 1000 / 3.6e6
    wanted = {
        "ideal_step_ms": 410,
        "step_mean_ms": 740,
        "slowest_compute_mean_ms": 630,
        "step_p50_ms": 740,
        "step_p95_ms": 1040,
        "step_p99_ms": 1340,
        "efficiency_fraction": float(Fraction(410, 740)),
        "useful_compute_fraction": float(Fraction(300, 740)),
        "displayed_utilization_fraction": float(Fraction(710, 740)),
        "time_ratio_fraction": 1,
        "gpu_hours_available_per_day": 24 * 64,
        "gpu_hours_lost_per_day": float(Fraction(24 * 64 * 330, 740)),
        "gpu_hours_available": available,
        **{name: float(Fraction(available * ms, step)) for name, ms in shares.items()},
        **dict.fromkeys(absent, 0.0),
        "gpu_hours_irreducible": 0.0,
        # A fixed time has no parts that could be told apart.
        "gpu_hours_communication_latency": math.nan,
        "gpu_hours_communication_bandwidth": math.nan,
        "exposed_load_ms": 30,
        "exposed_communication_ms": 80,
        "gpu_hours_lost_se": available * 410 / 740 * 3 / 740,
        "days_to_finish": 740 / 86_400,
        "gpu_hours_for_total_steps": hours,
        "gpu_hours_extra_for_total_steps": hours * 330 / 740,
        "gpu_hours_per_1000_steps": hours,
    }
    named = found(point, factors(2.1, transient=2.0))
    assert named == pytest.approx(wanted, rel=1e-13, nan_ok=True)
    assert sum(named[name] for name in ATTRIBUTION_COLUMNS) == pytest.approx(available, rel=1e-14)


def test_causes_share_what_the_time_ratio_leaves() -> None:
    # 90 % of the time is left; the step falls 740, 680, 650, 590, 560, 500, 470, 440, 410.
    factor = {
        "episodes": 1.9,
        "transient": 1.8,
        "spikes": 1.6,
        "replica": 1.5,
        "persistent": 1.3,
        "node": 1.2,
    }
    named = found(columns(total_steps=10**6), factors(2.1, **factor), 0.9)
    available = 24 * 64 * 10
    per_ms = available * 0.9 / 740
    wanted = {
        "failures": available * 0.1,
        "episodes": 60 * per_ms,
        "transient": 30 * per_ms,
        "spikes": 60 * per_ms,
        "replica": 30 * per_ms,
        "common": 0.0,
        "persistent": 60 * per_ms,
        "node": 30 * per_ms,
        "slow_groups": 60 * per_ms,
        "communication": 80 * per_ms,
        "load": 30 * per_ms,
        "useful": 300 * per_ms,
        "spares": 0.0,
        "backup_workers": 0.0,
        "reducible_by_eviction": 210 * per_ms,
        "reducible_by_waiting": 90 * per_ms,
        "irreducible": available * 0.1 + 30 * per_ms,
        "lost": available * (1 - 0.9 * 410 / 740),
    }
    for name, hours in wanted.items():
        assert named[f"gpu_hours_{name}"] == pytest.approx(hours, rel=1e-12, abs=1e-9), name
    assert sum(named[name] for name in ATTRIBUTION_COLUMNS) == pytest.approx(available, rel=1e-14)
    assert named["efficiency_fraction"] == pytest.approx(0.9 * 410 / 740, rel=1e-14)
    assert named["displayed_utilization_fraction"] == pytest.approx(0.9 * 710 / 740, rel=1e-14)
    assert named["useful_compute_fraction"] == pytest.approx(0.9 * 300 / 740, rel=1e-14)
    # A tenth of the time more is a ninth longer.
    assert named["days_to_finish"] == pytest.approx(10**6 * 740 / 0.9 / 8.64e7, rel=1e-14)
    extra = 64 * 10**6 * (740 / 0.9 - 410) / 3.6e6
    assert named["gpu_hours_extra_for_total_steps"] == pytest.approx(extra, rel=1e-13)


def test_spares_are_held_and_do_not_work() -> None:
    named = found(columns(num_spare_gpus=16), factors(1.5, persistent=1.0))
    # 80 GPUs held, 64 work: a step of 560 ms costs what 700 ms of 64 GPUs would.
    available = 24 * 80 * 10
    assert named["gpu_hours_available"] == available
    assert named["gpu_hours_spares"] == pytest.approx(24 * 16 * 10, rel=1e-13)
    assert named["efficiency_fraction"] == pytest.approx(410 / 700, rel=1e-14)
    assert named["gpu_hours_persistent"] == pytest.approx(available * 150 / 700, rel=1e-13)
    assert named["gpu_hours_lost"] == pytest.approx(available * 290 / 700, rel=1e-13)
    assert named["step_mean_ms"] == 560
    per_step = 80 * 560 / 3.6e6
    assert named["gpu_hours_per_1000_steps"] == pytest.approx(1000 * per_step, rel=1e-13)
    share = named["displayed_utilization_fraction"]
    assert share == pytest.approx((1 - 30 / 560) * 64 / 80, rel=1e-13)


def test_evicted_gpus_are_not_held() -> None:
    named = found(columns(num_evicted_gpus=4), factors(1.5, persistent=1.0))
    assert named["gpu_hours_available"] == 24 * 60 * 10
    assert named["gpu_hours_spares"] == 0
    assert named["efficiency_fraction"] == pytest.approx(410 / 560, rel=1e-14)


@pytest.mark.parametrize(("without", "sign"), [(1.6, -1), (1.21, 1)])
def test_backup_workers_may_cost_or_pay(without: float, sign: int) -> None:
    backup = {"kind": "backup_workers", "count": 4}
    given = factors(1.2, backup_workers=without, transient=1.0)
    named = found(columns(synchronization=backup), given)
    step, available = 470 * 64 / 60, 24 * 64 * 10
    assert named["step_mean_ms"] == pytest.approx(470, rel=1e-14)
    assert named["efficiency_fraction"] == pytest.approx(410 / step, rel=1e-14)
    saved = (step - (110 + 300 * without)) * available / step
    assert named["gpu_hours_backup_workers"] == pytest.approx(saved, rel=1e-12)
    assert named["gpu_hours_backup_workers"] * sign > 0
    assert sum(named[name] for name in ATTRIBUTION_COLUMNS) == pytest.approx(available, rel=1e-13)


def test_strong_scaling_divides_the_work_among_those_who_take_part() -> None:
    strong = {"kind": "strong", "reference_num_gpus": 32}
    named = found(columns(scaling=strong), factors(1.5, transient=1.0))
    assert named["ideal_step_ms"] == 110 + 150
    assert named["step_mean_ms"] == 110 + 225
    evicted = found(columns(scaling=strong, num_evicted_gpus=16), factors(1.5, transient=1.0))
    assert evicted["ideal_step_ms"] == 110 + 200


def test_round_off_of_the_quadrature_is_no_gain() -> None:
    # By Jensen the expected slowest is never below the slowest kind; 1e-12 less is round-off.
    named = found(columns(), factors(1.5, transient=1.5 + 1e-12, persistent=1.0))
    assert named["gpu_hours_transient"] == 0


def test_no_column_shares_its_array_with_another() -> None:
    named = loss_columns(columns(), factors(1.1), nominal_of(columns()), ALWAYS)
    arrays = list(named.values())
    for position, one in enumerate(arrays):
        for other in arrays[position + 1 :]:
            assert not np.shares_memory(one, other)
