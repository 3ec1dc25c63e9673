"""Shifted exponentials: harmonic numbers."""

import numpy as np
import pytest

from service.model.laws.exponential import Exponential
from service.model.laws.gamma import Gamma
from service.model.slowest.barrier import Groups, slowest_of


@pytest.mark.parametrize("cv", [1e-6, 0.002, 0.05, 0.3, 1.0])
def test_maxima_are_harmonic(cv: float) -> None:
    sizes = [2, 3, 8, 64, 1024, 100_000]
    shape = np.full((2, len(sizes)), cv)
    counts = np.array([sizes], dtype=np.float64)
    found = slowest_of(Groups(Exponential, counts, np.ones_like(counts), shape))
    harmonic = np.array([np.sum(1 / np.arange(1, size + 1)) for size in sizes])
    assert found.mean == pytest.approx(1 - cv + cv * harmonic, rel=1e-10)


@pytest.mark.parametrize(
    ("size", "published"),
    [(8, 2.7178571428571425), (64, 4.743890903705768), (1024, 7.509175672278134)],
)
def test_maxima_of_independent_code(size: int, published: float) -> None:
    counts = np.full((1, 1), float(size))
    found = slowest_of(Groups(Exponential, counts, np.ones((1, 1)), np.ones((2, 1))))
    assert found.mean[0] == pytest.approx(published, rel=1e-10)


def test_a_cv_of_one_is_a_gamma_of_one() -> None:
    x = np.array([1e-9, 0.3, 1, 5, 30])
    shape = np.ones((2, 1))
    assert Exponential.rate(x, shape) == pytest.approx(Gamma.rate(x, shape), rel=1e-7)


def test_nothing_is_faster_than_the_minimum() -> None:
    shape = np.full((2, 1), 0.3)
    assert Exponential.lower_quantile(np.array([-1e3]), shape)[0] == pytest.approx(0.7, rel=1e-15)
    assert Exponential.at_score(np.array([-30.0]), shape)[0] == pytest.approx(0.7, rel=1e-15)
    rate, slope = Exponential.rate_and_slope(np.cbrt([0.69, 0.70001]), np.ones(1), shape)
    assert rate[0] > 36
    assert np.isfinite(slope).all()
    assert rate[1] < rate[0]
