"""Quantiles of weighted values."""

import numpy as np

from service.model.pipeline.weighted_quantiles import weighted_quantiles


def test_against_repeated_values() -> None:
    rng = np.random.default_rng(0)
    values, times = rng.random(20), rng.integers(1, 9, 20)
    probabilities = (0.01, 0.31, 0.5, 0.95, 1.0)
    repeated = np.repeat(values, times)
    expected = np.quantile(repeated, probabilities, method="inverted_cdf")
    found = weighted_quantiles(values, times / times.sum(), probabilities)
    np.testing.assert_array_equal(found, expected)


def test_round_off_does_not_reach_the_next_value() -> None:
    values, weights = np.array([2.0, 1.0, 3.0]), np.array([0.4, 0.1 - 1e-16, 0.5])
    np.testing.assert_array_equal(weighted_quantiles(values, weights, (0.1, 0.5, 1)), [1, 2, 3])
