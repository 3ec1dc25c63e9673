import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.changes import (
    Change,
    change,
    change_of_sums,
    differences,
    is_moved,
    nullable,
    relatives,
)

NUMBERS = st.floats(allow_nan=True, allow_infinity=False)


def test_a_change_is_given_in_four_numbers() -> None:
    assert change(200.0, 150.0) == Change(past=200.0, new=150.0, difference=-50.0, relative=-0.25)


def test_relative_keeps_the_direction_where_the_past_is_a_gain() -> None:
    assert change(-200.0, -150.0).relative == 0.25


@pytest.mark.parametrize(
    ("past", "new", "difference"),
    [
        (1.0, 1.0 + 0.9e-8, 0.0),
        (1.0, 1.0 - 0.9e-8, 0.0),
        (1e6, 1e6 + 0.02, pytest.approx(0.02)),
        (-1.0, -1.0 - 0.9e-8, 0.0),
        (0.0, 1e-300, 1e-300),
    ],
)
def test_what_is_under_1e_8_is_no_change(past: float, new: float, difference: float) -> None:
    assert change(past, new).difference == difference


def test_relative_is_null_where_the_past_is_nothing() -> None:
    assert change(0.0, 5.0) == Change(past=0.0, new=5.0, difference=5.0, relative=None)
    assert change(0.0, 0.0).relative is None


def test_what_is_not_known_on_a_side_has_no_change() -> None:
    assert change(float("nan"), 5.0) == Change(past=None, new=5.0, difference=None, relative=None)
    assert nullable(float("nan")) is None


@given(past=NUMBERS, part=st.sampled_from([0.0, 0.9e-8, -0.9e-8, 1.1e-8, -0.5]), new=NUMBERS)
def test_what_has_a_difference_has_moved(past: float, part: float, new: float) -> None:
    for other in (new, past * (1 + part)):
        difference = change(past, other).difference
        if difference is not None:
            assert is_moved(past, other) == (difference != 0)


@given(past=NUMBERS, new=NUMBERS)
def test_no_infinity_leaves_and_sides_can_be_swapped(past: float, new: float) -> None:
    pasts, news = np.array([past]), np.array([new])
    there, back = differences(pasts, news), differences(news, pasts)
    np.testing.assert_array_equal(there, -back)
    assert not np.isinf(there).any()
    assert not np.isinf(relatives(pasts, there)).any()


@given(rows=st.permutations([0.1] * 10 + [1e16, -1e16, 3.7]))
def test_sums_do_not_depend_on_the_order_of_rows(rows: list[float]) -> None:
    assert change_of_sums(rows, rows).past == 4.7
    assert change_of_sums([], []) == Change(past=0.0, new=0.0, difference=0.0, relative=None)
