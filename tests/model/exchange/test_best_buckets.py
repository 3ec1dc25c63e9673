"""The best number of buckets against a search of all."""

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.exchange.best_buckets import (
    best_buckets,
    best_of_latency,
    slowed,
)
from service.model.exchange.bucket_queue import Runs, Window, queue_lines
from service.model.exchange.measured import measured_ms
from service.model.fields import Scenario
from service.model.laws.law import Floats
from service.model.parts.communication import Fixed, Link, Measured, Ring
from service.model.parts.overlap import MAX_BUCKETS, Buckets


def _all_ms(window: Window, counts: Floats, costs: Floats) -> Floats:
    """(counts, points) steps, each by its lines."""
    num_counts, num_points = costs.shape
    wide = Window(*(np.tile(part, num_counts) for part in window))
    count = np.repeat(counts, num_points)[None]
    lines = queue_lines(wide, Runs(count, 1 / count, costs.reshape(1, -1)))
    return lines.value(np.ones(num_counts * num_points)).reshape(costs.shape)


@pytest.mark.parametrize("contention", [0.0, 0.189, 0.4, 5.0])
def test_best_is_the_best_of_all(contention: float) -> None:
    rng = np.random.default_rng(int(10 * contention))
    num_points = 500
    backward = rng.uniform(1, 100, num_points)
    window = Window(rng.uniform(0, 50, num_points), backward, np.full(num_points, contention))
    latency = backward * 10 ** rng.uniform(-4, 0.5, num_points)
    bandwidth = backward * rng.choice([0.0, 1.0, 3.0], num_points) * rng.random(num_points)
    counts = np.arange(1.0, 1200.0)
    every = _all_ms(window, counts, latency + bandwidth / counts[:, None])
    best = best_of_latency(window, latency, bandwidth)
    searched = best.num_buckets < 1200
    assert searched.mean() > 0.7
    np.testing.assert_allclose(best.ms[searched], every.min(axis=0)[searched], rtol=1e-12)
    assert (best.ms <= every.min(axis=0) * (1 + 1e-12)).all()
    chosen = best.num_buckets[searched].astype(int) - 1
    same = every[chosen, np.flatnonzero(searched)]
    np.testing.assert_allclose(best.ms[searched], same, rtol=1e-12)


def test_without_contention_it_is_the_reference_formula() -> None:
    rng = np.random.default_rng(1)
    backward = rng.uniform(50, 100, 300)
    latency = rng.uniform(0.05, 1, 300)
    bandwidth = rng.uniform(0, 1, 300) * backward
    window = Window(backward / 2, backward, np.zeros(300))
    best = best_of_latency(window, latency, bandwidth).num_buckets
    # communication.md 3.2, in real numbers.
    real = np.maximum((backward - bandwidth) / latency, np.sqrt(backward / latency))
    assert (np.abs(best - real) <= 1).all()


def test_no_more_buckets_than_allowed_and_no_fewer_than_one() -> None:
    window = Window(np.zeros(2), np.array([1e6, 1e-9]), np.zeros(2))
    best = best_of_latency(window, np.array([1e-9, 1.0]), np.array([10.0, 10.0]))
    assert best.num_buckets.tolist() == [MAX_BUCKETS, 1]


def test_columns() -> None:
    ring = Ring(link=Link(latency_us=10, bandwidth_gigabytes_per_s=10), message_bytes=1e9)
    curve = Measured(sizes_bytes=(1e6, 1e7, 1e9), times_ms=(0.5, 1.0, 80.0), message_bytes=1e9)
    short = Measured(sizes_bytes=(4e8, 1e9), times_ms=(30.0, 80.0), message_bytes=1e9)
    gamma = 0.189
    columns = joined(
        [
            columns_of(
                Scenario(
                    num_gpus=8,
                    compute_ms=300,
                    communication=communication,
                    overlap=Buckets(num_buckets=2, contention_fraction=gamma),
                )
            )
            for communication in (ring, Fixed(allreduce_ms=80), curve, short)
        ]
    )
    best = best_buckets(columns, np.array([1.0, 1.0, 1.1, 1.0]))
    assert np.isnan(best.num_buckets[1])
    # 14 latencies, and 175 ms of bytes: computing all the way it is least at sqrt(C / (gamma a)).
    assert best.num_buckets[0] == pytest.approx(np.sqrt(175 / (gamma * 0.14)), abs=1)
    window = slowed(
        Window(np.array([100.0]), np.array([200.0]), np.array([gamma])), np.array([1.1])
    )
    counts = np.arange(1.0, 1001.0)
    costs = measured_ms(columns.part(np.array([2])), 1e9 / counts[:, None])
    every = _all_ms(window, counts, costs)
    assert best.num_buckets[2] == counts[every.argmin()]
    assert best.ms[2] == pytest.approx(every.min())
    # Two buckets of 5e8 bytes are the smallest that were measured.
    assert best.num_buckets[3] == 2


def test_columns_of_a_link_alone() -> None:
    ring = Ring(link=Link(latency_us=1000, bandwidth_gigabytes_per_s=1), message_bytes=0)
    columns = columns_of(Scenario(num_gpus=2, compute_ms=300, communication=ring))
    # Buckets of nothing, 2 ms each: the fewest are as good as any.
    best = best_buckets(columns, np.ones(1))
    assert best.num_buckets.tolist() == [1.0]
    assert best.ms.tolist() == [302.0]
