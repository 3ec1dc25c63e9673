"""Steps as lines of the slowest factor: values worked out by hand, event by event."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.exchange_columns import exchange_columns
from service.model.kernel import evaluate
from service.model.nominal_steps import nominal_of
from service.model.scenario import decode_scenario
from service.model.step_lines import rest_lines_of, step_lines_of
from service.model.times import compute_ms, outside_ms
from tests.model.random_waits import WAYS
from tests.model.steps_by_hand import simulated
from tests.soak.whole_steps import sound_scenario

BASE: dict[str, Any] = {
    "num_gpus": 8,
    "compute_ms": 90.0,
    "load_ms": 20.0,
    "communication": {"kind": "fixed", "allreduce_ms": 40.0},
}
RING = {
    "kind": "ring",
    "message_bytes": 4e8,
    "link": {"latency_us": 500, "bandwidth_gigabytes_per_s": 20},
}
"""14 latencies of 0.5 ms and 14/8 of 20 ms: 7 + 35 ms."""


def points(*changes: dict[str, Any]) -> Any:
    return joined([columns_of(decode_scenario({**BASE, **change})) for change in changes])


def results(**change: Any) -> dict[str, float]:
    found = evaluate(points(change), with_spread=False).columns
    return {name: float(values[0]) for name, values in found.items()}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        # 40 ms after compute; buckets of 10 ms in 60 ms of backward; one layer after the other.
        ({}, 20 + 90 + 40),
        ({"overlap": {"kind": "buckets", "num_buckets": 4}}, 20 + 90 + 10),
        # The last of three, a half, is ready at the end: 20 ms. The others take 10 ms each.
        ({"overlap": {"kind": "buckets", "bucket_shares": [1, 1, 2]}}, 20 + 90 + 20),
        # While the first three travel, 30 ms, compute runs at 1 / 1.5: 10 ms are lost.
        (
            {"overlap": {"kind": "buckets", "num_buckets": 4, "contention_fraction": 0.5}},
            20 + 90 + 10 + 10,
        ),
        ({"overlap": {"kind": "none", "load_prefetch": True}}, 90 + 40),
        ({"overlap": {"kind": "none", "load_prefetch": True}, "load_ms": 150}, 150),
        ({"synchronization": {"kind": "local_steps", "steps": 10}}, 20 + 90 + 4),
        ({"synchronization": {"kind": "local_steps", "steps": 10, "fragments": 5}}, 20 + 90 + 4),
        ({"synchronization": {"kind": "local_steps", "steps": 10, "overlap_steps": 1}}, 20 + 90),
        # Begins 45 ms before the end of its step: all 40 ms are hidden.
        (
            {"synchronization": {"kind": "local_steps", "steps": 10, "release_fraction": 0.5}},
            20 + 90,
        ),
        ({"synchronization": {"kind": "delayed_update"}}, 20 + 90),
        # (110 + 40 + 130) / 2 > 110.
        ({"synchronization": {"kind": "delayed_update", "delay_ms": 130}}, 140),
        (
            {"synchronization": {"kind": "bounded_staleness", "staleness": 0, "delay_ms": 7}},
            20 + 90 + 40 + 7,
        ),
        (
            {
                "synchronization": {"kind": "local_steps", "steps": 10},
                "overlap": {"kind": "buckets", "num_buckets": 4},
            },
            20 + 90 + 1,
        ),
    ],
)
def test_a_step_at_nominal_speed_by_hand(change: dict[str, Any], wanted: float) -> None:
    column = points(change)
    assert nominal_of(column).ms[0] == pytest.approx(wanted, rel=1e-12)
    found = evaluate(column, with_spread=False).columns
    assert found["step_mean_ms"][0] == pytest.approx(wanted, rel=1e-12)
    factor = step_lines_of(column).step.value(np.ones(1))
    assert outside_ms(column) + compute_ms(column) * factor == pytest.approx(wanted, rel=1e-12)


def test_lines_of_all_ways_in_one_grid_meet_simulated_steps_of_unequal_gpus() -> None:
    """Nothing random: the recursion by hand is exact."""
    rng = np.random.default_rng(4)
    documents = []
    for way in WAYS * 3:
        document = {**sound_scenario(rng, way), "variability": {}}
        document["synchronization"].pop("count", None)
        if document["synchronization"]["kind"] == "backup_workers":
            document["synchronization"] = {"kind": "every_step"}
        documents.append(document)
    found = evaluate(joined([columns_of(decode_scenario(one)) for one in documents]))
    for row, document in enumerate(documents):
        period = document["synchronization"].get("steps", 1)
        by_hand = simulated(document, 2, 4000 * period // (1 + period) // period * period, rng)
        wanted = found.columns["step_mean_ms"][row]
        # A gate of staleness comes every few steps: whole periods differ by less than one.
        assert wanted == pytest.approx(by_hand.mean, rel=2e-3), document


def test_latency_and_bandwidth_that_are_exposed() -> None:
    plain = results(communication=RING)
    assert plain["communication_latency_ms"] == pytest.approx(7)
    assert plain["communication_bandwidth_ms"] == pytest.approx(35)
    per_ms = plain["gpu_hours_available"] / plain["step_mean_ms"]
    assert plain["gpu_hours_communication_latency"] == pytest.approx(7 * per_ms)
    assert plain["gpu_hours_communication_bandwidth"] == pytest.approx(35 * per_ms)
    assert plain["hidden_communication_fraction"] == 0
    # Of three buckets of 7 + 35 / 3 ms the last is exposed; without latency 35 / 3 of it.
    hidden = results(communication=RING, overlap={"kind": "buckets", "num_buckets": 3})
    last = 7 + 35 / 3
    assert hidden["exposed_communication_ms"] == pytest.approx(last)
    assert hidden["last_bucket_ms"] == pytest.approx(last)
    assert hidden["hidden_communication_fraction"] == pytest.approx(1 - last / 42)
    per_ms = hidden["gpu_hours_available"] / hidden["step_mean_ms"]
    assert hidden["gpu_hours_communication"] == pytest.approx(last * per_ms)
    assert hidden["gpu_hours_communication_latency"] == pytest.approx(7 * per_ms)
    assert hidden["gpu_hours_communication_bandwidth"] == pytest.approx(35 / 3 * per_ms)
    assert hidden["overlap_gain_ms"] == pytest.approx(42 - last)


def test_compression_is_neither_latency_nor_bandwidth() -> None:
    ring = {**RING, "compression_ratio": 5, "compression_ms": 6}
    found = results(communication=ring)
    parts = [found[f"gpu_hours_communication{part}"] for part in ("", "_latency", "_bandwidth")]
    per_ms = found["gpu_hours_available"] / found["step_mean_ms"]
    assert parts == pytest.approx([20 * per_ms, 7 * per_ms, 7 * per_ms])
    rarely = results(communication=ring, synchronization={"kind": "local_steps", "steps": 4})
    assert rarely["step_mean_ms"] == pytest.approx(20 + 90 + 20 / 4)


def test_a_hidden_load_is_no_exposed_communication() -> None:
    """Load 150, compute 90, 40 ms every 4 steps: three steps of 150 and one of 150."""
    found = results(
        load_ms=150.0,
        overlap={"kind": "none", "load_prefetch": True},
        synchronization={"kind": "local_steps", "steps": 4},
    )
    assert found["step_mean_ms"] == pytest.approx(150)
    assert found["exposed_communication_ms"] == pytest.approx(40 / 4)
    assert found["exposed_load_ms"] == pytest.approx(150 - 100)
    stale = results(
        load_ms=150.0,
        overlap={"kind": "none", "load_prefetch": True},
        synchronization={"kind": "delayed_update"},
    )
    assert stale["exposed_communication_ms"] == 0
    assert stale["exposed_load_ms"] == pytest.approx(60)


def test_extra_steps_cost_what_the_user_says() -> None:
    local = {"kind": "local_steps", "steps": 10}
    plain = results(synchronization=local, total_steps=1_000_000)
    more = results(synchronization={**local, "extra_steps_fraction": 0.25}, total_steps=1_000_000)
    assert more["days_to_finish"] == pytest.approx(1.25 * plain["days_to_finish"])
    assert more["step_mean_ms"] == plain["step_mean_ms"]
    available = more["gpu_hours_available"]
    assert more["gpu_hours_extra_steps"] == pytest.approx(available * 0.2)
    assert 1 - more["gpu_hours_lost"] / available == pytest.approx(
        (1 - plain["gpu_hours_lost"] / available) / 1.25
    )
    assert plain["gpu_hours_extra_steps"] == 0
    assert plain["break_even_extra_steps_fraction"] == pytest.approx(150 / 114 - 1)


def test_what_is_above_nominal_speed() -> None:
    slow = [{"count": 1, "speed_fraction": 0.5}]
    buckets = {"kind": "buckets", "num_buckets": 4}
    found = results(slow_groups=slow, overlap=buckets)
    assert found["step_mean_ms"] == pytest.approx(20 + 180 + 10)
    available = found["gpu_hours_available"]
    assert found["gpu_hours_above_nominal"] == pytest.approx(available * (1 - 120 / 210))
    assert found["gpu_hours_slow_groups"] == pytest.approx(available * 90 / 210)
    # The ideal adds everything up: 150 ms.
    assert found["gpu_hours_lost"] == pytest.approx(available * (1 - 150 / 210))


def test_parts_of_columns_are_the_columns_of_parts() -> None:
    many = points(*({"num_gpus": n, "communication": RING} for n in (1, 2, 4, 8)))
    nominal = nominal_of(many)
    part = nominal.part(slice(1, 3))
    alone = nominal_of(many.part(slice(1, 3)))
    assert part.ms.tolist() == alone.ms.tolist()
    assert part.algorithm.tolist() == alone.algorithm.tolist()
    assert rest_lines_of(many).value(np.ones(4)) == pytest.approx(nominal.ms - 20)
    found = {"exposed_communication_ms": nominal.exposed_communication_ms}
    found |= {"step_mean_ms": nominal.ms, "slowest_compute_mean_ms": np.full(4, 90.0)}
    columns = exchange_columns(many, nominal, found)
    assert columns["communication_ms"].tolist() == pytest.approx([0, 1 + 20, 3 + 30, 7 + 35])
    assert columns["num_data_parallel_ranks"].tolist() == [1, 2, 4, 8]
    assert np.isnan(columns["hidden_communication_fraction"][0])
