import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.columns import joined
from service.model.exchange.measured import measured_ms
from tests.model.exchange.exchanges import by, point

SIZES = [1e3, 1e4, 1e6, 1e9]
TIMES = [0.05, 0.06, 0.3, 80.0]
CURVE = by("measured", sizes_bytes=SIZES, times_ms=TIMES)


def straight(size: float) -> float:
    """Between the two neighbours, by the powers of ten."""
    for low, high, fast, slow in zip(SIZES, SIZES[1:], TIMES, TIMES[1:], strict=False):
        if low <= size <= high:
            way = math.log10(size / low) / math.log10(high / low)
            return float(fast * (slow / fast) ** way)
    raise AssertionError(size)


@given(st.floats(1e3, 1e9))
def test_the_curve_is_straight_between_its_points(size: float) -> None:
    assert measured_ms(point(CURVE), np.array([size]))[0] == pytest.approx(straight(size))


def test_a_power_law_is_met_everywhere() -> None:
    law = by("measured", sizes_bytes=[1, 1e12], times_ms=[0.001, 1e5])
    sizes = np.geomspace(1, 1e12, 50)
    found = measured_ms(point(law), sizes[:, None])
    np.testing.assert_allclose(found[:, 0], 1e-3 * sizes ** (8 / 12), rtol=1e-12)


def test_points_go_by_their_own_curves() -> None:
    other = by("measured", sizes_bytes=[1, 1e12], times_ms=[5, 5])
    columns = joined([point(CURVE), point(other), point(CURVE)])
    sizes = np.array([[1e4, 1e4, 1e9], [1e3, 1, 1e6]])
    np.testing.assert_allclose(measured_ms(columns, sizes), [[0.06, 5, 80], [0.05, 5, 0.3]])


def test_beyond_its_ends_the_curve_is_flat() -> None:
    # Rules refuse such points; nothing is undefined meanwhile.
    found = measured_ms(point(CURVE), np.array([[0.0], [1.0], [1e12]]))
    np.testing.assert_allclose(found[:, 0], [0.05, 0.05, 80])
