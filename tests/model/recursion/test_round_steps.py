"""Rounds, fragments and buckets against recursions of plain numbers."""

from typing import Any

import numpy as np
import pytest

from service.model.recursion.pattern import Rounds
from service.model.recursion.round_steps import RoundSteps

REPLICATIONS, STEPS = 10, 25
INTERVALS = [(1, 1), (2, 1), (4, 1), (4, 2), (6, 3), (6, 2), (8, 1), (5, 5)]


def exchange_end(
    begun: list[float], compute: list[float], before: float, given: dict[str, Any]
) -> float:
    """When the exchange after this step ends; begun: when each rank's compute begins.

    Buckets: while one travels, compute advances at 1 / (1 + gamma) of its speed.
    """
    busy: list[tuple[float, float]] = []
    free = before
    for share, cost in zip(given["shares"], given["costs"], strict=True):
        ready = max(
            passed(start, share * lasts, busy, given["contention"])
            for start, lasts in zip(begun, compute, strict=True)
        )
        start = max(ready, free)
        free = start + cost
        busy.append((start, free))
    return free


def passed(start: float, work: float, busy: list[tuple[float, float]], gamma: float) -> float:
    """When a rank that computes from `start` on has done so much."""
    now, left = start, work
    for begins, ends in busy:
        undisturbed = max(begins - now, 0.0)
        if left <= undisturbed:
            return now + left
        left -= undisturbed
        now = max(now, begins)
        slowed = (ends - now) / (1 + gamma)
        if left <= slowed:
            return now + left * (1 + gamma)
        left -= slowed
        now = ends
    return now + left


def brute_force(compute: list[list[float]], given: dict[str, Any]) -> list[float]:
    """The last rank's end of every step; compute[step][rank]."""
    num_ranks = len(compute[0])
    done, loaded = [0.0] * num_ranks, [0.0] * num_ranks
    ends: dict[int, float] = {}
    fronts = []
    for k, of_step in enumerate(compute, start=1):
        awaited = k - given["overlap"] - 1
        starts = [
            max(end, ends.get(awaited, 0.0), data) for end, data in zip(done, loaded, strict=True)
        ]
        loaded = [start + given.get("hidden", 0.0) for start in starts]
        begin = [start + given["load"] for start in starts]
        done = [start + lasts for start, lasts in zip(begin, of_step, strict=True)]
        fronts.append(max(done))
        if k % given["interval"] == 0:
            last = ends.get(k - given["interval"], 0.0)
            ends[k] = exchange_end(begin, of_step, last, given)
    return fronts


def fronts(pattern: Rounds, compute: np.ndarray, parts: int = 1) -> np.ndarray:
    """(steps, points, replications) of compute (steps, ranks, points, replications)."""
    num_ranks = compute.shape[1]
    recursion = RoundSteps(pattern, num_ranks, compute.shape[3])
    found = []
    for of_step in compute:
        recursion.start()
        for some in np.array_split(np.arange(num_ranks), parts):
            ranks = slice(int(some[0]), int(some[-1]) + 1)
            recursion.go(ranks, of_step[ranks], pattern.load_ratio[:, np.newaxis])
        recursion.end()
        found.append(recursion.front.copy())
    return np.array(found)


def random_rounds(rng: np.random.Generator) -> Rounds:
    """Every interval of INTERVALS with every overlap that it allows, twice."""
    chosen = [(h, p, tau) for h, p in INTERVALS for tau in range(h // p) for _ in range(2)]
    steps, fragments, overlap = np.array(chosen).T
    num_points = len(chosen)
    return Rounds(
        steps=steps,
        fragments=fragments,
        overlap_steps=overlap,
        release_fraction=rng.choice([0.0, 0.4, 1.0], num_points),
        part_ratio=rng.choice([0.0, 0.5, 2.0, 7.0], num_points),
        load_ratio=rng.choice([0.0, 0.3], num_points),
        hidden_ratio=rng.choice([0.0, 0.8, 1.5], num_points),
    )


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 6])
def test_thousands_of_small_cases(num_ranks: int) -> None:
    rng = np.random.default_rng(num_ranks)
    pattern = random_rounds(rng)
    num_points = len(pattern.steps)
    mean = rng.uniform(0.3, 2, (num_ranks, num_points, REPLICATIONS))
    compute = mean * rng.lognormal(0, 0.5, (STEPS, num_ranks, num_points, REPLICATIONS))
    found = fronts(pattern, compute, parts=min(num_ranks, 2))
    assert pattern.hidden_ratio is not None
    for point in range(num_points):
        given = {
            "hidden": float(pattern.hidden_ratio[point]),
            "interval": int(pattern.steps[point] // pattern.fragments[point]),
            "overlap": int(pattern.overlap_steps[point]),
            "shares": [float(pattern.release_fraction[point])],
            "costs": [float(pattern.part_ratio[point])],
            "load": float(pattern.load_ratio[point]),
            "contention": 0.0,
        }
        for replication in range(REPLICATIONS):
            expected = brute_force(compute[:, :, point, replication].tolist(), given)
            np.testing.assert_allclose(found[:, point, replication], expected, rtol=1e-12)


@pytest.mark.parametrize("num_buckets", [1, 2, 4])
def test_unequal_buckets_after_the_last_step_with_contention(num_buckets: int) -> None:
    rng = np.random.default_rng(num_buckets)
    num_points, num_ranks = 40, 3
    shares = np.sort(rng.uniform(0.2, 1, (num_buckets, num_points)), axis=0)
    shares[-1] = 1.0
    pattern = Rounds(
        steps=rng.integers(1, 5, num_points),
        fragments=np.ones(num_points, dtype=np.int64),
        overlap_steps=np.zeros(num_points, dtype=np.int64),
        release_fraction=np.ones(num_points),
        part_ratio=np.zeros(num_points),
        load_ratio=rng.choice([0.0, 0.3], num_points),
        release_shares=shares,
        bucket_ratios=rng.choice([0.02, 0.1, 0.4], (num_buckets, num_points)),
        contention_fraction=rng.choice([0.0, 0.2, 2.0], num_points),
    )
    assert pattern.bucket_ratios is not None
    assert pattern.contention_fraction is not None
    compute = rng.lognormal(0, 0.4, (STEPS, num_ranks, num_points, REPLICATIONS))
    found = fronts(pattern, compute)
    for point in range(num_points):
        given = {
            "interval": int(pattern.steps[point]),
            "overlap": 0,
            "shares": shares[:, point].tolist(),
            "costs": pattern.bucket_ratios[:, point].tolist(),
            "load": float(pattern.load_ratio[point]),
            "contention": float(pattern.contention_fraction[point]),
        }
        for replication in range(REPLICATIONS):
            expected = brute_force(compute[:, :, point, replication].tolist(), given)
            np.testing.assert_allclose(found[:, point, replication], expected, rtol=1e-12)


def test_published_contention_of_ten_buckets() -> None:
    # model.md, section 5: forward .1, backward .2, communication .1 in 10 buckets, gamma .189.
    shares = ((0.1 + 0.2 * np.arange(1, 11) / 10) / 0.3)[:, np.newaxis]
    pattern = Rounds(
        steps=np.ones(1, dtype=np.int64),
        fragments=np.ones(1, dtype=np.int64),
        overlap_steps=np.zeros(1, dtype=np.int64),
        release_fraction=np.ones(1),
        part_ratio=np.zeros(1),
        load_ratio=np.zeros(1),
        release_shares=shares,
        bucket_ratios=np.full((10, 1), 0.01 / 0.3),
        contention_fraction=np.full(1, 0.189),
    )
    found = fronts(pattern, np.ones((3, 2, 1, 1)))
    assert float(found[2, 0, 0] - found[1, 0, 0]) * 0.3 == pytest.approx(0.3243, abs=5e-5)


def test_without_contention_given_buckets_do_not_lag() -> None:
    pattern = random_rounds(np.random.default_rng(0)).part(slice(0, 2))
    given = {"release_shares": np.array([[0.5], [1.0]]), "bucket_ratios": np.full((2, 1), 0.8)}
    one = Rounds(
        **{
            name: getattr(pattern, name)[:1]
            for name in (
                "steps",
                "fragments",
                "overlap_steps",
                "release_fraction",
                "part_ratio",
                "load_ratio",
            )
        }
        | {"load_ratio": np.zeros(1)},
        **given,
    )
    # Steps of 1: the first bucket from .5 to 1.3, the second to 2.1.
    np.testing.assert_allclose(fronts(one, np.ones((3, 1, 1, 1)))[:, 0, 0], [1, 3.1, 5.2])


def test_more_bandwidth_and_more_overlap_never_hurt() -> None:
    rng = np.random.default_rng(5)
    part, overlap = np.meshgrid([4.0, 2.0, 1.0, 0.5, 0.0], [0, 1, 2, 3])
    num_points = part.size
    pattern = Rounds(
        steps=np.full(num_points, 8),
        fragments=np.full(num_points, 2),
        overlap_steps=overlap.ravel(),
        release_fraction=np.ones(num_points),
        part_ratio=part.ravel(),
        load_ratio=np.zeros(num_points),
    )
    compute = np.repeat(rng.lognormal(0, 0.4, (48, 5, 1, 20)), num_points, axis=2)
    found = fronts(pattern, compute)[-1].reshape(*part.shape, 20)
    assert (np.diff(found, axis=0) <= 1e-12).all()
    assert (np.diff(found, axis=1) <= 1e-12).all()


def test_local_steps_leave_lasting_slowness_untouched() -> None:
    interval = np.array([1, 2, 4, 8, 16])
    pattern = Rounds(
        steps=interval,
        fragments=np.ones(5, dtype=np.int64),
        overlap_steps=np.zeros(5, dtype=np.int64),
        release_fraction=np.ones(5),
        part_ratio=np.full(5, 3.0),
        load_ratio=np.zeros(5),
    )
    compute = np.ones((32, 3, 5, 1))
    compute[:, 1] /= 0.7
    found = fronts(pattern, compute)
    steps = (found[-1] - found[15])[:, 0] / 16
    np.testing.assert_allclose(steps, 1 / 0.7 + 3.0 / interval, rtol=1e-12)
