"""Steps, losses and causes from a given slowest factor: plain arithmetic, checked by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from service.model.barrier import Slowest
from service.model.columns import Columns, columns_of
from service.model.losses import loss_columns, slowest_nominal
from service.model.results import ATTRIBUTION_COLUMNS
from service.model.scenario import decode_scenario


def columns(*slow: tuple[int, float], num_gpus: int = 64) -> Columns:
    return columns_of(
        decode_scenario(
            {
                "num_gpus": num_gpus,
                "load_ms": 30,
                "compute_ms": 300,
                "communication": {"kind": "fixed", "allreduce_ms": 80},
                "slow_groups": [{"count": count, "speed_fraction": speed} for count, speed in slow],
                "period_days": 10,
            }
        )
    )


def slowest(mean: float) -> Slowest:
    return Slowest(mean=np.array([mean]), quantiles=np.array([[mean, mean + 1, mean + 2]]))


@pytest.mark.parametrize(
    ("slow", "factor"),
    [
        ([], 1.0),
        ([(1, 0.5)], 2.0),
        ([(1, 0.5), (2, 0.25)], 4.0),
        ([(64, 0.8)], 1.25),
        ([(60, 0.8), (4, 1.0)], 1.25),
    ],
)
def test_slowest_kind_without_variability(slow: list[tuple[int, float]], factor: float) -> None:
    assert slowest_nominal(columns(*slow)).tolist() == [factor]


def test_absent_groups_do_not_count() -> None:
    point = columns((1, 0.5))
    absent = replace(point, slow_count=np.array([[0]]))
    assert slowest_nominal(absent).tolist() == [1.0]


def test_every_column_by_hand() -> None:
    # Slow GPUs at half speed: 600 ms; variability makes the slowest 2.1 times the nominal: 630 ms.
    found = {
        name: values[0].item()
        for name, values in loss_columns(columns((4, 0.5)), slowest(2.1)).items()
    }
    step, available = 740, 24 * 64 * 10
    hours = {
        "gpu_hours_useful": 300,
        "gpu_hours_transient": 30,
        "gpu_hours_slow_groups": 300,
        "gpu_hours_communication": 80,
        "gpu_hours_load": 30,
        "gpu_hours_lost": 330,
        "gpu_hours_above_nominal": 330,
        "gpu_hours_not_useful": 440,
    }
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
        "gpu_hours_available_per_day": 24 * 64,
        "gpu_hours_lost_per_day": float(Fraction(24 * 64 * 330, 740)),
        "gpu_hours_available": available,
        **{name: float(Fraction(available * ms, step)) for name, ms in hours.items()},
    }
    assert found == pytest.approx(wanted, rel=1e-13)
    assert sum(found[name] for name in ATTRIBUTION_COLUMNS) == pytest.approx(available, rel=1e-14)


def test_round_off_of_the_quadrature_is_no_gain() -> None:
    # By Jensen the expected slowest is never below the slowest kind; 1e-12 less is round-off.
    found = loss_columns(columns((4, 0.5)), slowest(2 * (1 - 1e-12)))
    assert found["gpu_hours_transient"][0] == 0
    assert found["step_mean_ms"][0] == 710
    one = loss_columns(columns(), slowest(1 - 1e-12))
    assert one["gpu_hours_lost"][0] == 0
    assert one["efficiency_fraction"][0] == 1


def test_no_column_shares_its_array_with_another() -> None:
    found = list(loss_columns(columns(), slowest(1.1)).values())
    for position, one in enumerate(found):
        for other in found[position + 1 :]:
            assert not np.shares_memory(one, other)
