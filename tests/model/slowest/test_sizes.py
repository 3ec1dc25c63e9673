"""Long axes by panels against the same points by their own quadratures."""

import numpy as np
import pytest

from service.model.distributions import EMPIRICAL, FAMILIES, law_of
from service.model.slowest.barrier import Groups, slowest_of
from service.model.slowest.sizes import DEGREE, NUM_PANELS, WORTHWHILE_POINTS, slowest_of_sizes

KINDS = FAMILIES[1:EMPIRICAL]
SKEW = 2.5


def groups(kind: str, cv: float, sizes: list[float], *slow: tuple[float, float]) -> Groups:
    num_gpus = np.array([sizes, *([count] * len(sizes) for count, _ in slow)], dtype=np.float64)
    mean = np.array([[1.0] * len(sizes), *([1 / speed] * len(sizes) for _, speed in slow)])
    shape = np.array([[cv] * len(sizes), [SKEW] * len(sizes)])
    return Groups(law_of(FAMILIES.index(kind)), num_gpus, mean, shape)


@pytest.mark.parametrize(
    ("kind", "cv"),
    [(kind, cv) for kind in KINDS for cv in (0.002, 0.05, 0.3, 1.0) if kind != "normal" or cv < 1]
    + [("pareto", 3.0)],
)
@pytest.mark.parametrize("slow", [(), ((1.0, 0.9),), ((40.0, 0.97), (2.0, 0.7))])
def test_panels_agree_with_direct_points(
    kind: str, cv: float, slow: tuple[tuple[float, float], ...]
) -> None:
    sizes = np.geomspace(1, 1e7, 60 * NUM_PANELS).tolist()
    fleet = groups(kind, cv, sizes, *slow)
    by_panels = slowest_of_sizes(fleet, np.zeros(len(sizes), dtype=np.int64))
    direct = slowest_of(fleet)
    np.testing.assert_allclose(by_panels.mean, direct.mean, rtol=5e-10)
    np.testing.assert_allclose(by_panels.quantiles, direct.quantiles, rtol=5e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_whichever_kind_takes_over_within_a_panel(kind: str) -> None:
    # Sizes from 1 to 1e7 beside slow GPUs that are the slowest up to about the middle.
    cv = 0.05
    for speed in (0.8, 0.85, 0.9, 0.95, 0.99):
        for count in (1.0, 30.0, 1000.0):
            fleet = groups(kind, cv, np.geomspace(1, 1e7, 400).tolist(), (count, speed))
            by_panels = slowest_of_sizes(fleet, np.zeros(400, dtype=np.int64))
            direct = slowest_of(fleet)
            np.testing.assert_allclose(by_panels.mean, direct.mean, rtol=5e-10)
            np.testing.assert_allclose(by_panels.quantiles, direct.quantiles, rtol=5e-10)


def test_short_runs_and_fleets_without_nominal_gpus_are_direct() -> None:
    sizes = [0.0] * 100 + [1000.0 + n for n in range(WORTHWHILE_POINTS - 1)]
    fleet = groups("normal", 0.1, sizes, (5.0, 0.9))
    found = slowest_of_sizes(fleet, np.zeros(len(sizes), dtype=np.int64))
    direct = slowest_of(fleet)
    assert np.array_equal(found.mean, direct.mean)
    assert np.array_equal(found.quantiles, direct.quantiles)


def test_points_of_different_keys_are_kept_apart() -> None:
    rng = np.random.default_rng(3)
    num_points = 3000
    key = rng.integers(0, 4, num_points)
    cv = np.array([0.01, 0.05, 0.1, 0.3])[key]
    sizes = rng.integers(1, 10_000_001, num_points).astype(np.float64)
    fleet = groups("normal", 0.1, sizes.tolist())._replace(shape=np.vstack([cv, cv]))
    found = slowest_of_sizes(fleet, key)
    direct = slowest_of(fleet)
    np.testing.assert_allclose(found.mean, direct.mean, rtol=1e-10)
    np.testing.assert_allclose(found.quantiles, direct.quantiles, rtol=1e-10)


def test_the_ends_of_all_panels() -> None:
    ends = np.exp(np.linspace(0, np.log(1e7), NUM_PANELS + 1))
    sizes = np.concatenate([np.repeat(ends, WORTHWHILE_POINTS), ends * (1 - 1e-12)])
    fleet = groups("gamma", 0.2, np.maximum(sizes, 1).tolist())
    found = slowest_of_sizes(fleet, np.zeros(len(sizes), dtype=np.int64))
    np.testing.assert_allclose(found.mean, slowest_of(fleet).mean, rtol=1e-10)


def test_a_panel_costs_a_fixed_number_of_quadratures() -> None:
    assert WORTHWHILE_POINTS > DEGREE + 1
