import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from service.model.slowest.normal_rate import (
    HIGHEST,
    LOWEST,
    add_normal_rate,
    normal_rate_and_slope,
)


def test_the_table_is_the_function() -> None:
    z = np.linspace(LOWEST, HIGHEST, 1_000_003)
    rate, slope = normal_rate_and_slope(z)
    expected = -special.log_ndtr(z)
    error = np.abs(rate / expected - 1)
    assert error[z <= 5.2].max() < 1.2e-10
    assert error.max() < 2e-9
    hazard = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) / special.ndtr(z)
    assert np.abs(-slope / hazard - 1)[z <= 5.2].max() < 1e-6


@given(st.floats(-1e300, 1e300))
def test_beyond_the_table_the_end_counts(z: float) -> None:
    rate, _ = normal_rate_and_slope(np.array([z]))
    expected = -special.log_ndtr(np.clip(z, LOWEST, HIGHEST))
    assert rate[0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("num_nodes", [1, 10, 11, 12, 44, 100])
def test_sums_over_tiles_of_any_height(num_nodes: int) -> None:
    rng = np.random.default_rng(num_nodes)
    v = rng.uniform(-1, 1, (num_nodes, 7))
    slope, offset, weight = rng.uniform(1, 4, 7), rng.uniform(-4, 4, 7), rng.uniform(0, 9, 7)
    total = np.ones_like(v)
    add_normal_rate(slope, v, offset, weight, total)
    expected = 1 - weight * special.log_ndtr(slope * v + offset)
    assert total == pytest.approx(expected, rel=1e-10)
