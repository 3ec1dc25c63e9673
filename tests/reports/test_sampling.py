"""Standard errors of differences, checked against drawing both sides again and again."""

import numpy as np
import pytest

from service.model.results import COLUMN_NAMES
from service.reports.compare import page
from service.reports.export_comparison import comparison_chunks, comparison_fields
from service.reports.export_fields import cells
from service.reports.join import Joined, Side, SideItem, join
from service.reports.sampling import (
    ERROR_COLUMNS,
    ERROR_OF,
    Sampling,
    StandardError,
    difference_errors,
    samplings,
)

LOST = "gpu_hours_lost"
NAN = float("nan")
SAME, OTHER = np.array([True]), np.array([False])


def side(lost: float, error: float | None, *, seed: int | None = 0) -> Side:
    values = {LOST: np.array([lost]), "gpu_hours_available": np.array([1000.0])}
    if error is not None:
        values[ERROR_OF[LOST]] = np.array([error])
    return Side(
        items=(SideItem(name="slow", seed=seed),),
        item=np.zeros(1, dtype=np.int64),
        axes={"num_gpus": np.array([64])},
        values=values,
    )


def joined_of(past: Side, new: Side) -> Joined:
    return join(past, new)


def test_errors_are_columns_of_the_model() -> None:
    assert ERROR_OF[LOST] == "gpu_hours_lost_se"
    assert ERROR_OF["gpu_hours_lost_p90"] == "gpu_hours_lost_p90_se"
    assert set(ERROR_COLUMNS) <= set(COLUMN_NAMES)
    assert not set(ERROR_OF) & ERROR_COLUMNS


def test_the_error_of_independent_draws_is_what_drawing_again_shows() -> None:
    rng = np.random.default_rng(5)
    past, new = rng.normal(100, 3, 200_000), rng.normal(90, 4, 200_000)
    (found,) = difference_errors(np.array([3.0]), np.array([4.0]), np.array([-10.0]), OTHER)
    assert found == 5.0
    # Its own standard error is sd / sqrt(2 n).
    assert (new - past).std() == pytest.approx(found, abs=5 * found / np.sqrt(400_000))


def test_the_error_of_common_draws_is_no_smaller_than_what_drawing_again_shows() -> None:
    rng = np.random.default_rng(6)
    common = rng.normal(0, 1, 100_000)
    past, new = 100 + 3 * common, 90 + 4 * common
    (found,) = difference_errors(np.array([3.0]), np.array([4.0]), np.array([-10.0]), SAME)
    assert found == 5.0 > (new - past).std()


def test_the_same_draws_of_the_same_have_no_error() -> None:
    none = np.array([0.0])
    assert difference_errors(np.array([3.0]), np.array([3.0]), none, SAME) == [0.0]
    assert difference_errors(np.array([3.0]), np.array([3.0]), none, OTHER) == [np.sqrt(18)]
    assert np.isnan(difference_errors(np.array([NAN]), np.array([3.0]), none, SAME)).all()


@pytest.mark.parametrize(
    ("past", "new", "same", "expected"),
    [
        (0.0, 0.0, SAME, "exact"),
        (NAN, 0.0, SAME, "exact"),
        (2.0, 0.0, SAME, "independent"),
        (0.0, 2.0, SAME, "independent"),
        (2.0, 2.0, OTHER, "independent"),
        (2.0, 2.0, SAME, "common_seed"),
        (NAN, 2.0, SAME, "independent"),
    ],
)
def test_it_is_said_how_both_sides_were_drawn(
    past: float, new: float, same: np.ndarray[tuple[int], np.dtype[np.bool_]], expected: Sampling
) -> None:
    assert samplings(np.array([[past]]), np.array([[new]]), same) == [expected]


def test_without_a_sampled_column_all_is_exact() -> None:
    assert samplings(np.empty((0, 1)), np.empty((0, 1)), SAME) == ["exact"]


@pytest.mark.parametrize(
    ("past_seed", "new_seed", "sampling"),
    [
        (0, 0, "common_seed"),
        (0, 1, "independent"),
        (None, 0, "independent"),
        (None, None, "independent"),
    ],
)
def test_a_row_of_a_comparison_states_its_errors(
    past_seed: int | None, new_seed: int | None, sampling: Sampling
) -> None:
    joined = joined_of(side(200.0, 3.0, seed=past_seed), side(150.0, 4.0, seed=new_seed))
    (row,) = page(joined, size=1).items
    assert row.standard_error == {LOST: StandardError(past=3.0, new=4.0, difference=5.0)}
    assert row.sampling == sampling
    # Errors are no compared columns of their own.
    assert set(row.difference) == {LOST, "gpu_hours_available"}


def test_a_side_of_an_older_model_has_no_errors() -> None:
    (row,) = page(joined_of(side(200.0, None), side(150.0, 4.0)), size=1).items
    assert row.standard_error == {LOST: StandardError(past=None, new=4.0, difference=None)}
    assert row.sampling == "independent"
    (row,) = page(joined_of(side(200.0, None), side(150.0, None)), size=1).items
    assert row.standard_error == {}
    assert row.sampling == "exact"


def test_an_exported_comparison_has_them_too() -> None:
    joined = joined_of(side(200.0, 3.0), side(150.0, 4.0))
    with_all = {name: np.zeros(1) for name in ("gpu_hours_not_useful", "ideal_step_ms")}
    joined = join(
        *(
            Side(items=one.items, item=one.item, axes=one.axes, values={**one.values, **with_all})
            for one in (joined.baseline, joined.candidate)
        )
    )
    (chunk,) = comparison_chunks(joined, None, chunk_rows=10)
    found = {field.name: cells(field, chunk[field.name]) for field in comparison_fields(joined)}
    assert found["standard_error.gpu_hours_lost"] == [5.0]
    assert found["sampling"] == ["common_seed"]
    assert "past.gpu_hours_lost_se" not in found
