import numpy as np
import pytest

from service.model.recursion.highest import highest


@pytest.mark.parametrize("shape", [(1, 1, 8), (7, 1, 8), (1025, 2, 8), (9, 70, 8)])
def test_maximum_over_ranks(shape: tuple[int, int, int]) -> None:
    values = np.random.default_rng(0).standard_normal(shape)
    before = values.copy()
    assert np.array_equal(highest(values), values.max(axis=0))
    assert np.array_equal(values, before)
