"""GPUs that stand by in simulated steps: those who work form the groups and have the episodes."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario


def step(**changed: Any) -> tuple[float, float]:
    """Mean step of a second's compute, s, and its standard error."""
    columns = columns_of(decode_scenario({"compute_ms": 1000, **changed}))
    found = {name: float(values[0]) for name, values in evaluate(columns).columns.items()}
    error = found["gpu_hours_lost_se"] / found["gpu_hours_available"] / found["efficiency_fraction"]
    return found["step_mean_ms"] / 1000, error * found["step_mean_ms"] / 1000


@pytest.mark.parametrize(("num_gpus", "evicted", "size", "steps"), [(4, 2, 2, 5), (16, 4, 4, 3)])
def test_those_who_work_form_the_groups(num_gpus: int, evicted: int, size: int, steps: int) -> None:
    normal = {"kind": "normal", "cv": 0.05}
    mean, error = step(
        num_gpus=num_gpus,
        gpus_per_node=4,
        tensor_parallel_size=size,
        num_evicted_gpus=evicted,
        variability={"persistent": normal, "transient": normal},
        synchronization={"kind": "local_steps", "steps": steps},
        draws=4000,
    )
    rng = np.random.default_rng(7)
    lasting = np.sort(1 + 0.05 * rng.standard_normal((20_000, num_gpus)))[:, : num_gpus - evicted]
    lasting = rng.permuted(lasting, axis=1)
    total = 0.0
    for _ in range(steps):
        factor = lasting * (1 + 0.05 * rng.standard_normal(lasting.shape))
        total = total + factor.reshape(len(factor), -1, size).max(axis=2)
    rounds = np.max(total, axis=1) / steps
    wanted, noise = rounds.mean(), rounds.std() / len(rounds) ** 0.5
    assert abs(mean - wanted) < 4 * np.hypot(error, noise)


@pytest.mark.parametrize(
    "synchronization",
    [{"kind": "delayed_update"}, {"kind": "local_steps", "steps": 5, "overlap_steps": 1}],
)
@pytest.mark.parametrize("spares", [0, 1])
def test_episodes_fall_on_those_who_work(synchronization: dict[str, Any], spares: int) -> None:
    mean, error = step(
        num_gpus=3,
        num_spare_gpus=spares,
        variability={
            "transient": {"kind": "normal", "cv": 1e-4},
            "episodes": {"rate_per_gpu_day": 8, "mean_hours": 1, "severity": 2},
        },
        synchronization=synchronization,
    )
    # Three work, each in an episode for 1 - e^(-1/3) of the time; one makes all twice as slow.
    none = np.exp(-1 / 3) ** 3
    assert mean == pytest.approx(1 / (none + (1 - none) / 2), abs=1e-5 + 4 * error)


@pytest.mark.parametrize(
    "synchronization",
    [
        {"kind": "bounded_staleness", "staleness": 1},
        {"kind": "local_steps", "steps": 4},
        {"kind": "local_steps", "steps": 6, "overlap_steps": 2},
    ],
)
def test_spares_need_not_fill_a_group(synchronization: dict[str, Any]) -> None:
    fields = {
        "num_gpus": 16,
        "gpus_per_node": 4,
        "tensor_parallel_size": 2,
        "variability": {"transient": {"kind": "gamma", "cv": 0.1}},
        "synchronization": synchronization,
    }
    # Of equal GPUs it does not matter that one more stands by.
    alone, error = step(**fields)
    beside, other = step(num_spare_gpus=1, **fields)
    assert abs(alone - beside) < 4 * np.hypot(error, other)
