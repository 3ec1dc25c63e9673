import numpy as np
import pytest

from service.model.exchange.lines import Lines, envelope, highest, joined, scaled, summed
from service.model.laws.law import Floats

S = np.concatenate([np.linspace(0, 4, 401), np.geomspace(4, 1e6, 200)])


def _maximum(slope: Floats, offset: Floats, s: Floats) -> Floats:
    """(s, points) by trying every line."""
    value: Floats = (slope * s[:, None, None] + offset).max(axis=1)
    return value


@pytest.mark.parametrize("num_lines", [1, 2, 3, 7, 40])
def test_envelope_is_the_maximum_of_all_lines(num_lines: int) -> None:
    rng = np.random.default_rng(num_lines)
    slope = rng.uniform(0, 3, (num_lines, 500))
    offset = rng.uniform(-2, 2, (num_lines, 500))
    # Ties: equal slopes, equal offsets, equal lines.
    slope[:, 100:200] = np.round(slope[:, 100:200])
    offset[:, 150:250] = np.round(offset[:, 150:250])
    lines = envelope(slope, offset)
    s = np.broadcast_to(S[:, None], (len(S), 500))
    expected = _maximum(slope, offset, S)
    np.testing.assert_allclose(lines.value(s), expected, rtol=1e-13, atol=1e-13)
    assert (np.diff(lines.slope, axis=0) >= 0).all()
    assert (lines.knots[1:] >= lines.knots[:-1]).all()


def test_each_line_kept_is_the_maximum_somewhere() -> None:
    rng = np.random.default_rng(1)
    slope = rng.uniform(0, 3, (30, 300))
    offset = rng.normal(0, 1, (30, 300))
    lines = envelope(slope, offset)
    knots = np.concatenate([np.zeros((1, 300)), lines.knots, np.full((1, 300), np.inf)])
    for line in range(len(lines.slope)):
        low, high = knots[line], np.where(np.isinf(knots[line + 1]), 1e9, knots[line + 1])
        there = np.isfinite(low)
        middle = (low + high)[there] / 2
        value = lines.slope[line, there] * middle + lines.offset[line, there]
        expected = (slope[:, there] * middle + offset[:, there]).max(axis=0)
        np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_slope_is_that_of_the_highest_line() -> None:
    rng = np.random.default_rng(2)
    slope = rng.uniform(0, 3, (12, 200))
    offset = rng.normal(0, 1, (12, 200))
    s = rng.uniform(0, 5, (50, 200))
    highest_line = (slope[:, None] * s + offset[:, None]).argmax(axis=0)
    expected = np.take_along_axis(slope, highest_line, axis=0)
    assert (envelope(slope, offset).slope_at(s) == expected).all()


def test_slope_at_a_knot_is_that_beyond_it() -> None:
    lines = envelope(np.array([[1.0], [3.0]]), np.array([[2.0], [0.0]]))
    assert lines.knots.tolist() == [[1.0]]
    assert lines.slope_at(np.array([[0.999], [1.0], [np.inf]])).tolist() == [[1.0], [3.0], [3.0]]


def test_lines_through_one_place_are_two() -> None:
    share = np.arange(1, 1001)[:, None] / 1000
    lines = envelope(100 + 200 * share, 50 + 200 * 1.1 * (1 - share))
    assert lines.slope.tolist() == [[100.2], [300.0]]
    np.testing.assert_allclose(lines.knots, [[1.1]], rtol=1e-12)


def test_a_thousand_lines_of_a_curve() -> None:
    touched = np.linspace(0, 3, 1000)[:, None] * np.array([1.0, 0.5])
    lines = envelope(2 * touched, -(touched**2))
    np.testing.assert_allclose(lines.value(touched), touched**2, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(lines.slope_at(touched + 1e-9), 2 * touched, atol=1e-12)


def test_points_with_fewer_lines_repeat_their_last() -> None:
    lines = envelope(np.array([[1.0, 1.0], [3.0, 3.0]]), np.array([[2.0, 0.0], [0.0, 5.0]]))
    assert lines.slope.tolist() == [[1.0, 3.0], [3.0, 3.0]]
    assert lines.offset.tolist() == [[2.0, 5.0], [0.0, 5.0]]
    assert lines.knots.tolist() == [[1.0, np.inf]]


def test_no_points() -> None:
    lines = envelope(np.empty((3, 0)), np.empty((3, 0)))
    assert lines.slope.shape == (1, 0)


def test_part_joined_and_scaled() -> None:
    one = envelope(np.array([[1.0]]), np.array([[2.0]]))
    two = envelope(np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([[2.0, 4.0], [0.0, 1.0]]))
    both = joined([one, two])
    s = np.array([0.5, 2.0, 7.0])
    assert both.value(s).tolist() == [2.5, 6.0, 8.0]
    assert both.part(slice(1, None)).value(s[1:]).tolist() == two.value(s[1:]).tolist()
    doubled = scaled(both, np.array([2.0, 2.0, 0.0]), np.array([1.0, 0.0, 3.0]))
    assert doubled.value(s).tolist() == [6.0, 12.0, 3.0]


def test_highest_is_the_maximum_of_several() -> None:
    one = Lines(np.array([[1.0]]), np.array([[2.0]]))
    flat = Lines(np.array([[0.0]]), np.array([[5.0]]))
    s = np.array([[0.0], [3.0], [4.0]])
    assert highest([one, flat]).value(s).tolist() == [[5.0], [5.0], [6.0]]


def test_summed_is_the_sum_of_both() -> None:
    rng = np.random.default_rng(3)
    one, two = (
        envelope(rng.uniform(0, 3, (lines, 200)), rng.normal(0, 1, (lines, 200)))
        for lines in (4, 6)
    )
    s = rng.uniform(0, 5, (50, 200))
    expected = one.value(s) + two.value(s)
    np.testing.assert_allclose(summed(one, two).value(s), expected, rtol=1e-13, atol=1e-13)


def test_envelope_of_very_unequal_lines() -> None:
    rng = np.random.default_rng(4)
    slope, offset = (
        np.where(rng.random((9, 2000)) < 0.2, 0.0, 10 ** rng.uniform(-12, 12, (9, 2000)))
        for _ in range(2)
    )
    lines = envelope(slope, offset)
    s = 10 ** rng.uniform(-6, 6, (20, 2000))
    expected = (slope[:, None] * s + offset[:, None]).max(axis=0)
    np.testing.assert_allclose(lines.value(s), expected, rtol=1e-14)
    assert (lines.knots[1:] >= lines.knots[:-1]).all()
