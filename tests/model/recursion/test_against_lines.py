"""Where nothing varies from step to step the recursions agree with the lines of round_lines.py."""

import numpy as np

from service.model.exchange.round_lines import (
    Fragments,
    Pace,
    fragment_lines,
    staleness_lines,
)
from service.model.recursion.pattern import Rounds, Staleness
from service.model.recursion.round_steps import RoundSteps
from service.model.recursion.stale_steps import StaleSteps

POINTS = 400


def pace_of(load: np.ndarray, hides: np.ndarray) -> Pace:
    return Pace(
        compute_ms=np.ones(len(load)),
        load_ms=load,
        hides_load=hides,
        constant_ms=np.zeros(len(load)),
    )


def mean_steps(
    recursion: RoundSteps | StaleSteps, factor: np.ndarray, load: np.ndarray
) -> np.ndarray:
    """(points,) over 240 steps, whole periods of 1 … 8 but 7, after as many."""
    fronts = []
    for _ in range(480):
        recursion.start()
        recursion.go(slice(0, len(factor)), factor[..., np.newaxis].copy(), load[:, np.newaxis])
        recursion.end()
        fronts.append(recursion.front[:, 0])
    return np.asarray((fronts[-1] - fronts[-241]) / 240)


def test_fragments_of_unequal_ranks() -> None:
    rng = np.random.default_rng(1)
    interval = rng.choice([1, 2, 3, 4, 5, 6, 8], POINTS)
    fragments = rng.integers(1, 4, POINTS)
    overlap = (rng.uniform(0, 1, POINTS) * interval).astype(np.int64)
    release, part = rng.uniform(0, 1, POINTS), rng.exponential(2, POINTS)
    load = rng.choice([0.0, 0.4, 1.3], POINTS)
    hides = rng.choice([False, True], POINTS)
    factor = rng.uniform(0.5, 2, (3, POINTS))
    pattern = Rounds(
        steps=interval * fragments,
        fragments=fragments,
        overlap_steps=overlap,
        release_fraction=release,
        part_ratio=part,
        load_ratio=np.where(hides, 0.0, load),
        hidden_ratio=np.where(hides, load, 0.0),
    )
    of_fragments = Fragments(
        interval_steps=interval.astype(float),
        overlap_steps=overlap.astype(float),
        release_fraction=release,
        part_ms=part,
    )
    lines = fragment_lines(pace_of(load, hides), of_fragments)
    found = mean_steps(RoundSteps(pattern, 3, 1), factor, pattern.load_ratio)
    np.testing.assert_allclose(found, lines.value(factor.max(axis=0)), rtol=1e-11)


def test_staleness_of_unequal_ranks() -> None:
    rng = np.random.default_rng(2)
    staleness = rng.choice([0, 1, 2, 3, 4, 5, 7], POINTS)
    delay, load = rng.exponential(3, POINTS), rng.choice([0.0, 0.4, 1.3], POINTS)
    hides = rng.choice([False, True], POINTS)
    factor = rng.uniform(0.5, 2, (3, POINTS))
    pattern = Staleness(
        staleness=staleness,
        delay_ratio=delay,
        load_ratio=np.where(hides, 0.0, load),
        hidden_ratio=np.where(hides, load, 0.0),
    )
    lines = staleness_lines(pace_of(load, hides), staleness.astype(float), delay)
    found = mean_steps(StaleSteps(pattern, 3, 1), factor, pattern.load_ratio)
    np.testing.assert_allclose(found, lines.value(factor.max(axis=0)), rtol=1e-11)
