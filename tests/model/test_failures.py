"""Failures and checkpoints: published checks, a renewal simulated, the optimum searched."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from service.model.columns import columns_of
from service.model.failures import (
    SMALL_WRITE,
    optimal_interval_s,
    share_of_time,
    time_ratios,
)
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
RATE_OF_RSC_1 = 6.50


def ratios(num_gpus: int = 16_384, /, **failures: Any) -> dict[str, float]:
    scenario = {"num_gpus": num_gpus, "compute_ms": 300, "failures": failures}
    found = time_ratios(columns_of(decode_scenario(scenario)))
    return {name: values[0].item() for name, values in found._asdict().items()}


def share(rate: float, interval: float, pause: float, away: float) -> float:
    given = (np.array([value]) for value in (rate, interval, pause, away))
    return float(share_of_time(*given)[0])


@pytest.mark.parametrize(
    ("num_gpus", "hours"), [(16_384, 1.8028846), (131_072, 0.2253606), (1024, 28.846154)]
)
def test_published_times_between_failures(num_gpus: int, hours: float) -> None:
    found = ratios(num_gpus, failures_per_1000_node_days=RATE_OF_RSC_1)
    assert 24 / found["failures_per_day"] == pytest.approx(hours, abs=5e-8 * hours * 10)


def test_a_measured_time_between_failures_contradicts_the_formula() -> None:
    # 7.9 h were measured at 1 024 GPUs, where the rate of the same cluster says 28.8 h: a
    # documented divergence, not to be fitted.
    found = ratios(1024, failures_per_1000_node_days=RATE_OF_RSC_1)
    assert 24 / found["failures_per_day"] > 3 * 7.9


def test_failures_of_llama_3() -> None:
    hours = 54 * 24 / 419
    assert hours == pytest.approx(3.0931, abs=5e-5)
    found = ratios(16_384, mtbf_hours_per_gpu=hours * 16_384)
    assert 24 / found["failures_per_day"] == pytest.approx(hours, rel=1e-14)
    per_1000_node_days = 419 / 54 / 2048 * 1000
    assert per_1000_node_days == pytest.approx(3.788700810185185, rel=1e-14)
    same = ratios(16_384, failures_per_1000_node_days=per_1000_node_days)
    assert same["failures_per_day"] == pytest.approx(found["failures_per_day"], rel=1e-14)


def test_published_ratios_of_2048_nodes() -> None:
    each = {"failures_per_1000_node_days": RATE_OF_RSC_1, "restart_s": 5 * MINUTE}
    hourly = ratios(**each, checkpoint_interval_s=HOUR)
    assert hourly["share"] == pytest.approx(0.7143789, abs=5e-8)
    best = ratios(**each, checkpoint_write_s=30)
    assert best["checkpoint_interval_s"] / MINUTE == pytest.approx(10.0700, abs=5e-5)
    assert best["share"] == pytest.approx(0.8659432, abs=5e-8)


def test_published_first_order_forms_are_met_to_first_order() -> None:
    rate = 2048 * RATE_OF_RSC_1 / 1000 / DAY
    published = (1 - rate * (5 + 30) * MINUTE) / (1 + 0.0)
    assert published == pytest.approx(0.6764444, abs=5e-8)
    assert share(rate, HOUR, 0, 5 * MINUTE) > published
    for slower in (10, 100, 1000):
        first = (1 - rate / slower * 35 * MINUTE) / (1 + 30 / HOUR)
        exact = share(rate / slower, HOUR, 30, 5 * MINUTE)
        # Beyond it are the squares, and a failure that strikes while a checkpoint is written.
        assert abs(exact - first) < (rate / slower * HOUR) ** 2 + rate / slower * 30
    young = np.sqrt(2 * 30 / rate)
    assert young / MINUTE == pytest.approx(10.4006, abs=5e-5)
    best = optimal_interval_s(np.array([rate]), np.array([30.0]))[0]
    assert best < young
    assert share(rate, best, 30, 300) > share(rate, float(young), 30, 300)


def test_the_ratio_is_that_of_a_simulated_job() -> None:
    rng = np.random.default_rng(20_261_130)
    rate, interval, pause, away = 1 / 900, 600.0, 60.0, 120.0
    assert simulated(rng, rate, interval, pause, away) == pytest.approx(
        share(rate, interval, pause, away), abs=0.004
    )


def simulated(
    rng: np.random.Generator, rate: float, interval: float, pause: float, away: float
) -> float:
    """Work kept over time passed, failure by failure; they strike while the job is away, too."""
    work = time = 0.0
    for until_failure in rng.exponential(1 / rate, 60_000).tolist():
        cycles = max(until_failure - away, 0.0) // (interval + pause)
        work += cycles * interval
        time += until_failure
    return work / time


@settings(max_examples=60, deadline=None)
@given(st.floats(-9, -3), st.floats(0.1, 4))
def test_the_optimum_is_where_a_search_finds_it(log_rate: float, log_write: float) -> None:
    rate, write = 10**log_rate, 10**log_write
    best = float(optimal_interval_s(np.array([rate]), np.array([write]))[0])
    found = optimize.minimize_scalar(
        lambda log: -share(rate, np.exp(log), write, 0),
        bounds=(np.log(best) - 3, np.log(best) + 3),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert share(rate, best, write, 0) >= -found.fun * (1 - 1e-14)
    assert np.log(best) == pytest.approx(found.x, abs=1e-5)


def test_the_series_joins_lambert_s_function_without_a_seam() -> None:
    writes = SMALL_WRITE * np.array([1 - 1e-9, 1 + 1e-9])
    below, above = optimal_interval_s(np.ones(2), writes) / np.sqrt(2 * writes)
    assert below == pytest.approx(above, rel=1e-9)


def test_asynchronous_checkpoints_lose_only_what_is_not_yet_durable() -> None:
    given = {"mtbf_hours_per_gpu": 16_384 * 2.0, "checkpoint_write_s": 60.0}
    found = ratios(**given, asynchronous_checkpoint=True, restart_s=300)
    assert found["checkpoint_interval_s"] == 60
    rate, tau = 1 / (2 * HOUR), 60.0
    wanted = rate * tau * np.exp(-rate * (300 + 60)) / np.expm1(rate * tau)
    assert found["share"] == pytest.approx(wanted, rel=1e-13)
    assert found["share"] > ratios(**given, restart_s=300)["share"]
    longer = ratios(**given, asynchronous_checkpoint=True, checkpoint_interval_s=600)
    assert longer["share"] < ratios(**given, asynchronous_checkpoint=True)["share"]


@pytest.mark.parametrize(
    ("failures", "wanted"),
    [
        ({"mtbf_hours_per_gpu": 1e5, "detection_s": 0}, (1.0, 0.0)),
        ({"failures_per_1000_node_days": 0, "checkpoint_write_s": 60}, (1.0, np.nan)),
        ({"failures_per_1000_node_days": 0}, (1.0, 0.0)),
        (
            {
                "failures_per_1000_node_days": 0,
                "checkpoint_write_s": 60,
                "checkpoint_interval_s": 540,
            },
            (0.9, 540.0),
        ),
    ],
)
def test_limits(failures: dict[str, Any], wanted: tuple[float, float]) -> None:
    found = ratios(**failures)
    assert (found["share"], found["checkpoint_interval_s"]) == pytest.approx(wanted, nan_ok=True)


def test_a_node_that_is_held_in_part_fails_like_a_whole_one() -> None:
    per_node = {"failures_per_1000_node_days": 1000.0}
    assert ratios(9, **per_node)["failures_per_day"] == 2
    assert ratios(16, **per_node)["failures_per_day"] == 2


def test_failures_multiply_the_efficiency() -> None:
    step = {"num_gpus": 1024, "compute_ms": 300, "load_ms": 110}
    slow = {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
    failing = {"failures": {"failures_per_1000_node_days": 6.5, "restart_s": 600.0}}
    plain = evaluate(columns_of(decode_scenario({**step, **slow}))).columns
    both = evaluate(columns_of(decode_scenario({**step, **slow, **failing}))).columns
    only = evaluate(columns_of(decode_scenario({**step, **failing}))).columns
    product = plain["efficiency_fraction"] * only["efficiency_fraction"]
    assert both["efficiency_fraction"] == pytest.approx(product, rel=1e-14)
    ratio = only["time_ratio_fraction"]
    assert only["efficiency_fraction"] == pytest.approx(ratio, rel=1e-14)
    share_lost = both["gpu_hours_failures"] / both["gpu_hours_available"]
    assert share_lost == pytest.approx(1 - both["time_ratio_fraction"], rel=1e-12)
    slow_hours = plain["gpu_hours_slow_groups"] * both["time_ratio_fraction"]
    assert both["gpu_hours_slow_groups"] == pytest.approx(slow_hours, rel=1e-12)
