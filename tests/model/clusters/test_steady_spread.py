"""Clusters that are alike: episodes only ever slow them down, and few steps say nothing."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario

STEP: dict[str, Any] = {
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
NAMES = ("p10", "p50", "p90")


def shares(**fields: Any) -> list[float]:
    """p10, p50 and p90 of the loss over what is available."""
    found = evaluate(columns_of(decode_scenario({**STEP, **fields}))).columns
    available = found["gpu_hours_available"][0]
    return [float(found[f"gpu_hours_lost_{name}"][0] / available) for name in NAMES]


@pytest.mark.parametrize(
    ("num_gpus", "episodes", "days", "simulated"),
    [
        # Of 20 000 windows with Poisson episodes and their union (an independent tester).
        (64, (0.001, 12, 1.5), 30, (0.0, 0.0061, 0.0199)),
        (1, (0.01, 10, 2), 1, (0.0, 0.0, 0.0)),
        (1000, (0.0001, 24, 1.5), 30, (0.0032, 0.0214, 0.0526)),
        (8, (0.005, 6, 1.3), 30, (0.0, 0.0009, 0.0049)),
    ],
)
def test_windows_with_few_episodes(
    num_gpus: int,
    episodes: tuple[float, float, float],
    days: int,
    simulated: tuple[float, float, float],
) -> None:
    rate, hours, severity = episodes
    source = {"rate_per_gpu_day": rate, "mean_hours": hours, "severity": severity}
    found = shares(num_gpus=num_gpus, period_days=days, variability={"episodes": source})
    assert found == pytest.approx(simulated, abs=0.0025)
    assert 0 <= found[0] <= found[1] <= found[2]


def test_many_episodes_are_normal() -> None:
    source = {"rate_per_gpu_day": 0.2, "mean_hours": 0.2, "severity": 1.5}
    p10, p50, p90 = shares(num_gpus=64, period_days=3000, variability={"episodes": source})
    assert p90 - p50 == pytest.approx(p50 - p10, rel=0.02)


@pytest.mark.parametrize(
    "variability",
    [
        {"transient": {"kind": "pareto", "cv": 3}, "autocorrelation": 0.999},
        {"spikes": {"probability": 1e-4, "slowdown": 1e4}},
    ],
)
def test_a_window_of_too_few_steps_has_no_spread(variability: dict[str, Any]) -> None:
    found = shares(num_gpus=4, compute_ms=60_000, period_days=1, variability=variability)
    assert np.isnan(found).all()


def test_episodes_of_no_length_lose_nothing() -> None:
    source = {"rate_per_gpu_day": 0.02, "mean_hours": 1e-307, "severity": 1.5}
    assert shares(num_gpus=64, variability={"episodes": source}) == pytest.approx(
        [0, 0, 0], abs=1e-9
    )
