"""Bounded staleness against a recursion of plain numbers."""

import numpy as np
import pytest

from service.model.recursion.pattern import Staleness
from service.model.recursion.stale_steps import StaleSteps

POINTS, REPLICATIONS, STEPS = 60, 12, 24


def brute_force(
    times: list[list[float]], staleness: int, delay: float, hidden: float
) -> list[float]:
    """The last rank's end of every step; times[step][rank]."""
    ends: list[list[float]] = []
    loaded = [0.0] * len(times[0])
    for k in range(1, len(times) + 1):
        before = ends[k - 2] if k > 1 else [0.0] * len(times[0])
        gate = (max(ends[k - 2 - staleness]) if k - 1 - staleness > 0 else 0.0) + delay
        begins = [max(end, gate, data) for end, data in zip(before, loaded, strict=True)]
        loaded = [begin + hidden for begin in begins]
        ends.append([begin + x for begin, x in zip(begins, times[k - 1], strict=True)])
    return [max(of_step) for of_step in ends]


def fronts(pattern: Staleness, compute: np.ndarray, slices: list[slice]) -> np.ndarray:
    """(steps, points, replications) of compute (steps, ranks, points, replications)."""
    recursion = StaleSteps(pattern, compute.shape[1], compute.shape[3])
    found = []
    for of_step in compute:
        recursion.start()
        for ranks in slices:
            recursion.go(ranks, of_step[ranks], pattern.load_ratio[:, np.newaxis])
        recursion.end()
        found.append(recursion.front.copy())
    return np.array(found)


def random_pattern(rng: np.random.Generator, num_points: int) -> Staleness:
    return Staleness(
        staleness=rng.integers(0, 7, num_points),
        delay_ratio=rng.choice([0.0, 0.3, 1.0, 2.5, 6.0], num_points),
        load_ratio=rng.choice([0.0, 0.2, 1.0], num_points),
        hidden_ratio=rng.choice([0.0, 0.8, 1.5], num_points),
    )


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 9])
def test_thousands_of_small_cases(num_ranks: int) -> None:
    rng = np.random.default_rng(num_ranks)
    pattern = random_pattern(rng, POINTS)
    hidden_ratio = pattern.hidden_ratio
    assert hidden_ratio is not None
    # Unequal workers: each has its own mean, and steps of its own.
    mean = rng.uniform(0.3, 2, (num_ranks, POINTS, REPLICATIONS))
    compute = mean * rng.lognormal(0, 0.5, (STEPS, num_ranks, POINTS, REPLICATIONS))
    found = fronts(pattern, compute, [slice(0, num_ranks)])
    for point in range(POINTS):
        given = int(pattern.staleness[point]), float(pattern.delay_ratio[point])
        hidden = float(hidden_ratio[point])
        for replication in range(REPLICATIONS):
            times = compute[:, :, point, replication] + pattern.load_ratio[point]
            expected = brute_force(times.tolist(), *given, hidden)
            np.testing.assert_allclose(found[:, point, replication], expected, rtol=1e-12)


def test_ranks_taken_in_several_parts_make_no_difference() -> None:
    rng = np.random.default_rng(0)
    pattern = random_pattern(rng, 5)
    compute = rng.lognormal(0, 0.3, (30, 23, 5, 8))
    whole = fronts(pattern, compute, [slice(0, 23)])
    parts = fronts(pattern, compute, [slice(0, 7), slice(7, 8), slice(8, 23)])
    assert np.array_equal(whole, parts)


def test_never_slower_than_a_barrier_every_s_plus_1_steps_never_faster_than_the_slowest() -> None:
    rng = np.random.default_rng(3)
    staleness = np.arange(8)
    pattern = Staleness(staleness=staleness, delay_ratio=np.zeros(8), load_ratio=np.full(8, 0.1))
    compute = np.repeat(rng.lognormal(0, 0.4, (40, 6, 1, 20)), 8, axis=2)
    found = fronts(pattern, compute, [slice(0, 6)])
    times = compute[:, :, 0] + 0.1
    slowest = times.cumsum(axis=0).max(axis=1)
    for s in staleness.tolist():
        starts = range(0, 40, s + 1)
        rounds = [times[start : start + s + 1].sum(axis=0).max(axis=0) for start in starts]
        barrier = np.sum(rounds, axis=0)
        assert (found[-1, s] <= barrier * (1 + 1e-12)).all()
        assert (found[-1, s] >= slowest[-1] * (1 - 1e-12)).all()
    # Looser is never slower, on the same numbers.
    assert (np.diff(found[-1], axis=0) <= 1e-12).all()
    # Without staleness every step is a barrier.
    np.testing.assert_allclose(found[-1, 0], times.max(axis=1).sum(axis=0), rtol=1e-12)


def test_more_bandwidth_never_hurts() -> None:
    rng = np.random.default_rng(4)
    delay = np.linspace(4, 0, 9)
    pattern = Staleness(staleness=np.full(9, 2), delay_ratio=delay, load_ratio=np.zeros(9))
    compute = np.repeat(rng.lognormal(0, 0.4, (40, 6, 1, 20)), 9, axis=2)
    found = fronts(pattern, compute, [slice(0, 6)])
    assert (np.diff(found, axis=1) <= 1e-12).all()


def test_equal_steps_take_the_closed_form() -> None:
    staleness = np.array([0, 1, 2, 5, 2, 4])
    delay = np.array([0.5, 1.0, 3.5, 0.0, 2.0, 9.0])
    pattern = Staleness(staleness=staleness, delay_ratio=delay, load_ratio=np.full(6, 0.25))
    compute = np.full((660, 4, 6, 1), 0.75)
    found = fronts(pattern, compute, [slice(0, 4)])
    # Over whole periods of 1 … 6 steps.
    steps = (found[-1] - found[-601])[:, 0] / 600
    np.testing.assert_allclose(steps, np.maximum(1, (1 + delay) / (staleness + 1)), rtol=1e-12)
