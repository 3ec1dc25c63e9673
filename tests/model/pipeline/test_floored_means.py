"""Means of steps that take at least so long."""

import numpy as np
import pytest

from service.model.pipeline.floored_means import FlooredMeans


def test_mean_of_normal_steps() -> None:
    rng = np.random.default_rng(0)
    step = rng.normal(2.0, 0.1, (4, 20_000))
    found = FlooredMeans(1.9, step).of(np.array([[1.5, 1.9], [2.0, 3.0]]))
    # E[max(m + s Z, c)] by drawing it.
    drawn = rng.normal(0, 0.1, 400_000)
    for mean, value in zip([1.5, 1.9, 2.0, 3.0], found.ravel(), strict=True):
        assert value == pytest.approx(np.maximum(mean + drawn, 1.9).mean(), abs=1e-3)


def test_no_floor() -> None:
    mean = np.array([1.0, 2.0])
    assert FlooredMeans(-np.inf, np.ones((2, 8))).of(mean).tolist() == [1.0, 2.0]


def test_no_noise() -> None:
    found = FlooredMeans(1.5, np.ones((2, 8))).of(np.array([1.0, 1.5, 2.0]))
    np.testing.assert_allclose(found, [1.5, 1.5, 2.0], rtol=1e-15)
