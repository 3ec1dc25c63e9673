"""What holds for every step with overlap, whatever the numbers. Issue 6, Proof."""

import numpy as np
import pytest

from service.model.exchange.bucket_queue import Runs, Window, queue_lines
from service.model.exchange.round_lines import (
    Fragments,
    Pace,
    bucketed_round_lines,
    fragment_lines,
    staleness_lines,
)
from service.model.exchange.sharding import layer_lines
from service.model.laws.law import Floats

NUM_CASES = 2000
NUM_BUCKETS = 6


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(6)


@pytest.fixture
def factor(rng: np.random.Generator) -> Floats:
    return rng.uniform(0.5, 3, NUM_CASES)


def _window(rng: np.random.Generator) -> Window:
    contention = rng.choice([0.0, 0.189, 2.0], NUM_CASES)
    return Window(rng.uniform(0, 100, NUM_CASES), rng.uniform(1, 200, NUM_CASES), contention)


def _runs(rng: np.random.Generator) -> Runs:
    shares = rng.dirichlet(np.ones(NUM_BUCKETS), NUM_CASES).T
    return Runs(np.ones_like(shares), shares, rng.exponential(20, shares.shape))


def _pace(rng: np.random.Generator) -> Pace:
    return Pace(
        compute_ms=rng.uniform(1, 10, NUM_CASES),
        load_ms=rng.uniform(0, 8, NUM_CASES),
        hides_load=rng.random(NUM_CASES) < 0.5,
        constant_ms=np.zeros(NUM_CASES),
    )


def test_the_last_bucket_is_never_hidden(rng: np.random.Generator, factor: Floats) -> None:
    window, runs = _window(rng), _runs(rng)
    step = queue_lines(window, runs).value(factor)
    exposed = step - factor * (window.forward_ms + window.backward_ms)
    assert (exposed >= runs.cost_ms[-1] * (1 - 1e-9)).all()


def test_contention_alone_never_makes_overlap_hurt(
    rng: np.random.Generator, factor: Floats
) -> None:
    window, runs = _window(rng), _runs(rng)
    serial = factor * (window.forward_ms + window.backward_ms) + runs.cost_ms.sum(axis=0)
    # It stretches compute by theta < 1 of the exchange that is hidden. Only buckets that together
    # cost more than the whole message, by their latencies, make a step longer.
    assert (queue_lines(window, runs).value(factor) <= serial * (1 + 1e-12)).all()


def test_faster_exchanges_never_hurt(rng: np.random.Generator, factor: Floats) -> None:
    window, runs = _window(rng), _runs(rng)
    faster = runs._replace(cost_ms=runs.cost_ms * rng.random(runs.cost_ms.shape))
    slow, fast = (queue_lines(window, of).value(factor) for of in (runs, faster))
    assert (fast <= slow * (1 + 1e-12)).all()
    layers = np.rint(rng.uniform(1, 40, NUM_CASES))
    ahead = np.rint(rng.uniform(0, 5, NUM_CASES))
    compute = (rng.exponential(1, NUM_CASES), rng.exponential(2, NUM_CASES))
    gather, scatter = rng.exponential(2, (2, NUM_CASES))
    shorter = rng.random((2, NUM_CASES))
    slow, fast = (
        layer_lines(layers, ahead, compute=compute, exchange=exchange).value(factor)
        for exchange in ((gather, scatter), (gather * shorter[0], scatter * shorter[1]))
    )
    assert (fast <= slow * (1 + 1e-12)).all()


def test_gathering_further_ahead_never_hurts(rng: np.random.Generator, factor: Floats) -> None:
    layers = np.rint(rng.uniform(1, 12, NUM_CASES))
    compute = (rng.exponential(1, NUM_CASES), rng.exponential(2, NUM_CASES))
    exchange = (rng.exponential(2, NUM_CASES), rng.exponential(2, NUM_CASES))
    steps = [
        layer_lines(
            layers, np.full(NUM_CASES, float(ahead)), compute=compute, exchange=exchange
        ).value(factor)
        for ahead in range(14)
    ]
    assert (np.diff(steps, axis=0) <= 1e-9).all()


def test_rounds_of_one_step_are_every_step(rng: np.random.Generator, factor: Floats) -> None:
    pace, runs = _pace(rng), _runs(rng)
    one = np.ones(NUM_CASES)
    window = Window(pace.compute_ms / 3, pace.compute_ms * 2 / 3, rng.random(NUM_CASES))
    last = queue_lines(window, runs)
    serial = np.where(pace.hides_load, 0.0, pace.load_ms)
    expected = np.maximum(last.value(factor) + serial, pace.load_ms)
    in_buckets = bucketed_round_lines(pace, one, last)
    np.testing.assert_allclose(in_buckets.value(factor), expected)
    part = rng.exponential(20, NUM_CASES)
    at_once = np.maximum(serial + factor * pace.compute_ms + part, pace.load_ms)
    blocking = fragment_lines(pace, Fragments(one, 0 * one, one, part))
    np.testing.assert_allclose(blocking.value(factor), at_once)
    np.testing.assert_allclose(staleness_lines(pace, 0 * one, part).value(factor), at_once)


@pytest.mark.parametrize("ahead", [1, 2, 7])
def test_staleness_lies_between_the_slowest_rank_and_rarer_barriers(
    rng: np.random.Generator, factor: Floats, ahead: int
) -> None:
    pace, delay = _pace(rng), rng.exponential(20, NUM_CASES)
    one = np.ones(NUM_CASES)
    stale = staleness_lines(pace, ahead * one, delay).value(factor)
    barriers = Fragments((ahead + 1) * one, 0 * one, one, delay)
    assert (stale <= fragment_lines(pace, barriers).value(factor) * (1 + 1e-12)).all()
    assert (stale >= factor * pace.compute_ms * (1 - 1e-12)).all()


def test_rounds_leave_slowness_that_lasts(rng: np.random.Generator, factor: Floats) -> None:
    pace, part = _pace(rng)._replace(load_ms=np.zeros(NUM_CASES)), rng.exponential(20, NUM_CASES)
    one = np.ones(NUM_CASES)
    endless = fragment_lines(pace, Fragments(1e9 * one, 0 * one, one, part)).value(factor)
    np.testing.assert_allclose(endless, factor * pace.compute_ms, rtol=1e-6)
