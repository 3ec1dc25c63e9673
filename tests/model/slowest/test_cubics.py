import numpy as np
import pytest

from service.model.slowest.cubics import cubic_pieces


def test_a_cubic_is_its_own_table() -> None:
    pieces = cubic_pieces(lambda x: 2 - x + 3 * x**3, -1, 1.5, 2)
    assert pieces.shape == (4, 5)
    starts = np.arange(-1, 1.5, 0.5)
    assert pieces[0] == pytest.approx(2 - starts + 3 * starts**3, abs=1e-12)
    assert pieces[3] == pytest.approx(np.full(5, 3 / 8), rel=1e-10)


def test_the_error_is_the_stated_one() -> None:
    pieces = cubic_pieces(np.exp, 0, 1, 10)
    places = np.linspace(0, 1, 101)[:, np.newaxis]
    found = sum(pieces[power] * places**power for power in range(4))
    error = np.abs(found / np.exp((np.arange(10) + places) / 10) - 1).max()
    assert error == pytest.approx(0.05**4 / 192, rel=0.1)
