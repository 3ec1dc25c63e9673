"""Buckets against a walk through time of every rank."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from service.model.exchange.bucket_queue import Runs, Window, queue_lines
from service.model.exchange.lines import Lines
from service.model.laws.law import Floats

ORACLE = Path(__file__).parents[1] / "data" / "communication.csv"


def _oracle(model: str) -> list[tuple[dict[str, float], float, float]]:
    with ORACLE.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == model]
    return [(json.loads(r["inputs"]), float(r["expected"]), float(r["tolerance"])) for r in rows]


def walked_ms(factors: Floats, shares: Floats, costs: Floats, window: Window) -> Floats:
    """(cases,) end of a step; factors (ranks, cases), shares and costs (buckets, cases).

    A bucket begins when the channel is free and every rank has computed as much as it needs; while
    it travels every rank computes by 1 + contention slower.
    """
    done = np.zeros_like(factors)
    now = np.zeros(factors.shape[1])
    needed = window.forward_ms + window.backward_ms * np.cumsum(shares, axis=0)
    for need, cost in zip(needed, costs, strict=True):
        idle = np.maximum((need - done) * factors, 0).max(axis=0)
        done += (idle + cost / (1 + window.contention_fraction)) / factors
        now += idle + cost
    return now


def _random_window(rng: np.random.Generator, num_cases: int) -> Window:
    return Window(
        forward_ms=rng.uniform(0, 200, num_cases),
        backward_ms=rng.uniform(10, 300, num_cases),
        contention_fraction=rng.choice([0.0, 0.189, 0.4, 3.0], num_cases),
    )


@pytest.mark.parametrize("num_buckets", [1, 2, 5, 13])
def test_unequal_buckets_of_unequal_ranks_are_the_walk(num_buckets: int) -> None:
    rng = np.random.default_rng(num_buckets)
    num_cases = 2000
    window = _random_window(rng, num_cases)
    shares = rng.dirichlet(np.full(num_buckets, 0.7), num_cases).T
    costs = rng.exponential(rng.choice([1.0, 10.0, 40.0], num_cases), (num_buckets, num_cases))
    factors = rng.uniform(0.5, 2.0, (rng.integers(1, 5), num_cases))
    lines = queue_lines(window, Runs(np.ones_like(shares), shares, costs))
    expected = walked_ms(factors, shares, costs, window)
    np.testing.assert_allclose(lines.value(factors.max(axis=0)), expected, rtol=1e-12)


def test_runs_of_equal_buckets_are_the_walk() -> None:
    rng = np.random.default_rng(7)
    num_cases = 3000
    window = _random_window(rng, num_cases)
    counts = rng.integers(0, 6, (3, num_cases)).astype(float)
    counts[1] = np.maximum(counts[1], 1)
    weights = np.where(counts > 0, rng.uniform(0.1, 1, (3, num_cases)), 0.0)
    shares = weights / (counts * weights).sum(axis=0)
    costs = np.where(counts > 0, rng.exponential(20.0, (3, num_cases)), 0.0)
    lines = queue_lines(window, Runs(counts, shares, costs))
    factor = rng.uniform(0.5, 2.0, (1, num_cases))
    # One bucket after the other: those that a run lacks cost nothing and hold nothing.
    there = (np.arange(5)[:, None] < counts[:, None]).reshape(15, num_cases)
    each = [np.repeat(of_run, 5, axis=0) * there for of_run in (shares, costs)]
    expected = walked_ms(factor, each[0], each[1], window)
    np.testing.assert_allclose(lines.value(factor[0]), expected, rtol=1e-12)


def test_equal_buckets_are_two_lines_however_many() -> None:
    num_buckets = np.array([1.0, 2.0, 65_536.0])
    window = Window(np.full(3, 100.0), np.full(3, 200.0), np.full(3, 0.25))
    cost = 80.0 / num_buckets
    lines = queue_lines(window, Runs(num_buckets[None], 1 / num_buckets[None], cost[None]))
    assert lines.slope.shape == (2, 3)
    np.testing.assert_allclose(lines.slope[0], [300.0, 200.0, 100 + 200 / 65_536])
    np.testing.assert_allclose(lines.slope[1], 300.0)
    # c + theta (K - 1) c with theta = 0.25 / 1.25, and K c.
    np.testing.assert_allclose(lines.offset[1], [80.0, 48.0, (1 + 0.2 * 65_535) * 80 / 65_536])
    np.testing.assert_allclose(lines.offset[0], 80.0)


@pytest.mark.parametrize(("inputs", "expected", "tolerance"), _oracle("ddp_step_s"))
def test_equal_buckets_of_the_oracle(
    inputs: dict[str, float], expected: float, tolerance: float
) -> None:
    lines = _oracle_lines(inputs)
    assert lines.value(np.array([1.0]))[0] == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    ("inputs", "expected", "tolerance"), _oracle("hta_overlap_ratio_last_rank")
)
def test_hidden_fraction_of_the_oracle(
    inputs: dict[str, float], expected: float, tolerance: float
) -> None:
    slowness = inputs["slowness"]
    slowest = max(slowness)  # type: ignore[call-overload]
    step = _oracle_lines(inputs).value(np.array([slowest]))[0]
    exposed = step - slowest * (inputs["fwd"] + inputs["bwd"])
    assert 1 - exposed / inputs["comm_total"] == pytest.approx(expected, abs=tolerance)


def _oracle_lines(inputs: dict[str, float]) -> Lines:
    count = np.array([[float(inputs["buckets"])]])
    window = Window(np.array([inputs["fwd"]]), np.array([inputs["bwd"]]), np.array([0.0]))
    return queue_lines(window, Runs(count, 1 / count, inputs["comm_total"] / count))


def test_contention_while_the_channel_is_busy_only() -> None:
    count = np.array([[10.0]])
    window = Window(np.array([0.1]), np.array([0.2]), np.array([0.189]))
    lines = queue_lines(window, Runs(count, 1 / count, 0.1 / count))
    # Design page "The model", section 5.
    assert lines.value(np.array([1.0]))[0] == pytest.approx(0.3243, abs=5e-5)
