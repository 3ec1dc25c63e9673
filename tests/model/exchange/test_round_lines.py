"""Local steps and staleness of unequal ranks against their recursions."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from service.model.columns import Columns, columns_of, joined
from service.model.exchange.bucket_queue import Runs, Window, queue_lines
from service.model.exchange.round_lines import (
    Fragments,
    Pace,
    bucketed_round_lines,
    fragment_lines,
    local_lines,
    stale_lines,
    staleness_lines,
)
from service.model.fields import Scenario
from service.model.laws.law import Floats
from service.model.parts.communication import Link, Transfer
from service.model.parts.overlap import Buckets, NoOverlap, Overlap
from service.model.parts.synchronization import (
    BoundedStaleness,
    DelayedUpdate,
    LocalSteps,
    Synchronization,
)

ORACLE = Path(__file__).parents[1] / "data" / "communication.csv"
NUM_RANKS = 3


def _oracle(model: str) -> list[tuple[dict[str, float], float, float]]:
    with ORACLE.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == model]
    return [(json.loads(r["inputs"]), float(r["expected"]), float(r["tolerance"])) for r in rows]


def _pace(rng: np.random.Generator, num_cases: int) -> Pace:
    return Pace(
        compute_ms=rng.uniform(1, 10, num_cases),
        load_ms=rng.choice([0.0, 1.0, 8.0], num_cases) * rng.uniform(0.5, 1, num_cases),
        hides_load=rng.random(num_cases) < 0.5,
        constant_ms=rng.choice([0.0, 0.7], num_cases),
    )


class _Ranks:
    """The steps of unequal ranks, one after the other; (ranks, cases)."""

    def __init__(self, pace: Pace, factors: Floats) -> None:
        self._hides = pace.hides_load
        self._load = pace.load_ms
        self._constant = pace.constant_ms
        self.compute = pace.compute_ms * factors
        self.end = np.zeros_like(self.compute)
        self._loaded = np.zeros_like(self.compute)
        self.computes_from = self.end

    def step(self, not_before: Floats) -> None:
        begin = np.maximum(self.end, not_before)
        begin = np.where(self._hides, np.maximum(begin, self._loaded), begin)
        self._loaded = begin + self._load
        self.computes_from = begin + self._constant + np.where(self._hides, 0.0, self._load)
        self.end = self.computes_from + self.compute


@pytest.mark.parametrize(
    ("interval", "ahead"), [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (7, 0), (7, 4), (7, 6)]
)
def test_fragments_are_the_recursion(interval: int, ahead: int) -> None:
    rng = np.random.default_rng(10 * interval + ahead)
    num_cases = 1000
    pace = _pace(rng, num_cases)
    factors = rng.uniform(0.5, 2, (NUM_RANKS, num_cases))
    release = rng.choice([0.0, 1 / 3, 1.0], num_cases)
    part = rng.exponential(5 * (ahead + 1), num_cases)
    ranks = _Ranks(pace, factors)
    exchanged = np.zeros(num_cases)
    needed: dict[int, Floats] = {}
    ends = []
    for step in range(1, 12 * interval + 1):
        ranks.step(needed.pop(step, np.zeros(num_cases)))
        if step % interval == 0:
            ready = (ranks.computes_from + release * ranks.compute).max(axis=0)
            exchanged = np.maximum(exchanged, ready) + part
            needed[step + ahead + 1] = exchanged
            ends.append(ready)
    fragments = Fragments(
        np.full(num_cases, float(interval)), np.full(num_cases, float(ahead)), release, part
    )
    mean = fragment_lines(pace, fragments).value(factors.max(axis=0))
    np.testing.assert_allclose(mean, (ends[-1] - ends[3]) / (8 * interval), rtol=1e-11)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_rounds_with_buckets_are_the_recursion(steps: int) -> None:
    rng = np.random.default_rng(steps)
    num_cases = 1000
    pace = _pace(rng, num_cases)
    factors = rng.uniform(0.5, 2, (NUM_RANKS, num_cases))
    contention = rng.choice([0.0, 0.4], num_cases)
    shares = rng.dirichlet(np.ones(4), num_cases).T
    costs = rng.exponential(1.0, (4, num_cases))
    ranks = _Ranks(pace, factors)
    gate = np.zeros(num_cases)
    gates = []
    for _ in range(10):
        for _ in range(steps):
            ranks.step(gate)
        channel = np.zeros(num_cases)
        for bucket in range(4):
            # A third of the compute is forward; contention delays by what went before.
            computed = 1 / 3 + 2 / 3 * shares[: bucket + 1].sum(axis=0)
            delay = contention / (1 + contention) * costs[:bucket].sum(axis=0)
            ready = (ranks.computes_from + computed * ranks.compute).max(axis=0) + delay
            channel = np.maximum(channel, ready) + costs[bucket]
        gate = channel
        gates.append(gate)
    window = Window(pace.compute_ms / 3, pace.compute_ms * 2 / 3, contention)
    last = queue_lines(window, Runs(np.ones_like(shares), shares, costs))
    lines = bucketed_round_lines(pace, np.full(num_cases, float(steps)), last)
    expected = (gates[-1] - gates[1]) / (8 * steps)
    np.testing.assert_allclose(lines.value(factors.max(axis=0)), expected, rtol=1e-11)


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
def test_staleness_is_the_recursion(ahead: int) -> None:
    rng = np.random.default_rng(ahead)
    num_cases = 1000
    pace = _pace(rng, num_cases)
    factors = rng.uniform(0.5, 2, (NUM_RANKS, num_cases))
    delay = rng.exponential(5.0 * (ahead + 1), num_cases)
    ranks = _Ranks(pace, factors)
    ends = [ranks.end.max(axis=0)] * (ahead + 1)
    for _ in range(40 * (ahead + 1)):
        ranks.step(ends[-1 - ahead] + delay)
        ends.append(ranks.end.max(axis=0))
    lines = staleness_lines(pace, np.full(num_cases, float(ahead)), delay)
    period = 20 * (ahead + 1)
    expected = (ends[-1] - ends[-1 - period]) / period
    np.testing.assert_allclose(lines.value(factors.max(axis=0)), expected, rtol=1e-11)


@pytest.mark.parametrize(
    ("inputs", "expected", "tolerance"), _oracle("ssp_rate_deterministic_delay")
)
def test_staleness_of_the_oracle(
    inputs: dict[str, float], expected: float, tolerance: float
) -> None:
    pace = Pace(np.ones(1), np.zeros(1), np.zeros(1, dtype=np.bool_), np.zeros(1))
    lines = staleness_lines(pace, np.array([inputs["s"]]), np.array([inputs["delay_over_compute"]]))
    assert 1 / lines.value(np.ones(1))[0] == pytest.approx(expected, abs=tolerance)


# 8 ms of latency and 1 MB a ms: a message of 100 MB takes 108 ms, and 3 to compress.
TRANSFER = Transfer(
    link=Link(latency_us=8000, bandwidth_gigabytes_per_s=1), message_bytes=100e6, compression_ms=3
)


def _columns(synchronization: Synchronization, overlap: Overlap | None = None) -> Columns:
    return columns_of(
        Scenario(
            num_gpus=8,
            compute_ms=90,
            load_ms=10,
            communication=TRANSFER,
            synchronization=synchronization,
            overlap=NoOverlap() if overlap is None else overlap,
        )
    )


def test_columns_of_local_steps() -> None:
    columns = joined(
        [
            _columns(LocalSteps(steps=10)),
            _columns(LocalSteps(steps=10), Buckets(num_buckets=4)),
            _columns(LocalSteps(steps=10, fragments=2, release_fraction=0.5)),
            _columns(LocalSteps(steps=10, fragments=2, overlap_steps=1)),
            _columns(LocalSteps(steps=10), NoOverlap(load_prefetch=True)),
            _columns(LocalSteps(steps=10), Buckets(num_buckets=4, load_prefetch=True)),
        ]
    )
    expected = [
        90 + 10.8,
        # 33 ms a bucket, the first ready after 30 + 15.
        90 + (30 + 15 + 4 * 33 - 90) / 10,
        # A fragment takes 58 ms, of which half of the last step hides 45.
        90 + 13 / 5,
        90,
        90 + 10.8,
        90 + (30 + 15 + 4 * 33 - 90) / 10,
    ]
    np.testing.assert_allclose(local_lines(columns).value(np.ones(6)), expected)


def test_columns_of_local_steps_that_load_longer_than_they_compute() -> None:
    rounds = LocalSteps(steps=10)
    columns = joined(
        [
            _columns(rounds, NoOverlap(load_prefetch=True)),
            _columns(rounds, Buckets(num_buckets=4, load_prefetch=True)),
        ]
    )
    # At a twentieth of the compute, 4.5 ms, a step takes the 10 ms of its load.
    # The 3 ms of compression lie in it, but are added by who asks.
    expected = [(9 * 10 + 0.3 + 4.5 + 108) / 10 - 0.3, (9 * 10 + 0.3 + 2.25 + 4 * 33) / 10 - 0.3]
    np.testing.assert_allclose(local_lines(columns).value(np.full(2, 0.05)), expected)


def test_columns_of_staleness() -> None:
    columns = joined(
        [
            _columns(DelayedUpdate(delay_ms=5)),
            _columns(BoundedStaleness(staleness=1)),
            _columns(BoundedStaleness(staleness=2, delay_ms=500)),
            _columns(BoundedStaleness(staleness=1), NoOverlap(load_prefetch=True)),
        ]
    )
    # X is 103, or 93 where the load is hidden; both without what is left out.
    expected = [(103 + 113) / 2 - 13, (103 + 108) / 2 - 13, (103 + 608) / 3 - 13, 100.5 - 3]
    np.testing.assert_allclose(stale_lines(columns).value(np.ones(4)), expected)


@pytest.mark.parametrize(("inputs", "expected", "tolerance"), _oracle("diloco_blocking_cu_pct"))
def test_blocking_rounds_of_the_oracle(
    inputs: dict[str, float], expected: float, tolerance: float
) -> None:
    inner_s = 60 * inputs["inner_min"]
    assert _busy_pct(inner_s, inputs["sync_s"]) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(("inputs", "expected", "tolerance"), _oracle("mfu_ratio_equals_cu_pct"))
def test_busy_share_is_that_of_the_published_utilisation(
    inputs: dict[str, str | float], expected: float, tolerance: float
) -> None:
    # INTELLECT-1, communication.md: 38 min of steps, then so many seconds of exchange.
    sync_s = {"USA": 103.0, "USA+Europe": 382.0, "Global": 469.0}[str(inputs["region"])]
    ratio = 100 * float(inputs["mfu"]) / float(inputs["mfu_base"])
    assert _busy_pct(38 * 60, sync_s) == pytest.approx(expected, abs=tolerance)
    assert ratio == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(("inputs", "expected", "tolerance"), _oracle("blocking_cu_pct"))
def test_blocking_steps_of_the_oracle(
    inputs: dict[str, float], expected: float, tolerance: float
) -> None:
    sync_s = 8 * inputs["payload_GB"] / inputs["gbps"]
    assert _busy_pct(inputs["compute_s"], sync_s) == pytest.approx(expected, abs=tolerance)


def _busy_pct(inner_s: float, sync_s: float) -> float:
    """Of rounds of 100 steps that block: the share of compute."""
    pace = Pace(np.array([inner_s / 100]), np.zeros(1), np.zeros(1, dtype=np.bool_), np.zeros(1))
    fragments = Fragments(np.full(1, 100.0), np.zeros(1), np.ones(1), np.array([sync_s]))
    return float(inner_s / fragment_lines(pace, fragments).value(np.ones(1))[0])
