import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.ideals import LostSplit, ideal_changed, lost_split, lost_splits


def columns(available: float, ideal_ms: float, excess_ms: float) -> dict[str, np.ndarray]:
    """One row, from the definition: lost = available x excess / step."""
    step_ms = ideal_ms + excess_ms
    return {
        "gpu_hours_available": np.array([available]),
        "ideal_step_ms": np.array([ideal_ms]),
        "gpu_hours_lost": np.array([available * excess_ms / step_ms]),
        "gpu_hours_not_useful": np.array([available * (1 - 300 / step_ms)]),
    }


def test_a_shorter_ideal_with_the_same_wait_loses_more_but_wastes_less() -> None:
    # The founding page: load 30, compute 300, all-reduce 80; one GPU at 0.7 adds 128.571 ms.
    # All-reduce 200 -> 80 ms: efficiency falls from 0.8305 to 0.7613, although the step is shorter.
    past, new = columns(737280, 530, 900 / 7), columns(737280, 410, 900 / 7)
    split = lost_split(lost_splits(past, new))
    assert split.gpu_hours_available == 0
    assert split.gpu_hours_excess == pytest.approx(0, abs=1e-6)
    assert split.gpu_hours_ideal is not None
    assert split.gpu_hours_ideal > 0
    assert split.gpu_hours_not_useful is not None
    assert split.gpu_hours_not_useful < 0


POSITIVE = st.floats(1e-3, 1e6)
EXCESS = st.floats(0, 1e6)


@given(sides=st.tuples(POSITIVE, POSITIVE, EXCESS, POSITIVE, POSITIVE, EXCESS))
def test_parts_add_up_to_the_difference(sides: tuple[float, ...]) -> None:
    past, new = columns(*sides[:3]), columns(*sides[3:])
    parts = lost_splits(past, new)
    difference = new["gpu_hours_lost"] - past["gpu_hours_lost"]
    scale = max(sides[0], sides[3])
    np.testing.assert_allclose(parts[:3].sum(axis=0), difference, atol=1e-9 * scale)


def test_parts_of_rows_are_summed() -> None:
    parts = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, np.nan]])
    assert lost_split(parts) == LostSplit(
        gpu_hours_available=3.0,
        gpu_hours_excess=7.0,
        gpu_hours_ideal=11.0,
        gpu_hours_not_useful=None,
    )


def test_what_cannot_be_divided_is_unknown() -> None:
    zero = {name: np.array([0.0]) for name in columns(1, 1, 1)}
    parts = lost_splits(zero, zero)
    assert np.isnan(parts[:3]).all()
    assert parts[3] == 0


def test_the_ideal_changed_where_it_moved_by_more_than_noise() -> None:
    past = np.array([410.0, 410.0, 410.0, np.nan])
    new = np.array([410.0, 410.0 * (1 + 1e-9), 530.0, 410.0])
    assert ideal_changed(past, new).tolist() == [False, False, True, False]
