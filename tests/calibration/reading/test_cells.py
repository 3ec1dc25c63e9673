import numpy as np
import pytest

from service.calibration.reading.cells import Cells, Place, RepeatedCellError
from service.calibration.reading.limits import ReadingLimits


def int_array(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def filled(*chunks: tuple[list[int], list[int]]) -> Cells:
    cells = Cells(ReadingLimits())
    for number, (steps, ranks) in enumerate(chunks):
        cells.add(
            Place(number, 10 * number),
            int_array(*steps),
            int_array(*ranks),
            {"compute": np.arange(len(steps), dtype=np.float64) + 100 * number},
            {},
        )
    return cells


def test_chunks_in_any_order() -> None:
    found = filled(([5, 1], [7, 2]), ([], []), ([1], [7])).matrices()
    assert found.steps.tolist() == [1, 5]
    assert found.ranks.tolist() == [2, 7]
    np.testing.assert_array_equal(found.times["compute"], [[1, 200], [np.nan, 0]])


@pytest.mark.parametrize(
    ("chunks", "first", "second"),
    [
        ([([0, 1, 0], [0, 0, 0])], (0, 0), (0, 2)),
        ([([0, 1], [0, 0]), ([2, 1], [0, 0])], (0, 1), (1, 11)),
        ([([0, 1], [0, 1]), ([3], [3]), ([4, 4, 3], [4, 4, 3])], (2, 20), (2, 21)),
    ],
)
def test_the_first_repeated_cell_is_named(
    chunks: list[tuple[list[int], list[int]]], first: tuple[int, int], second: tuple[int, int]
) -> None:
    with pytest.raises(RepeatedCellError) as caught:
        filled(*chunks).matrices()
    assert (caught.value.first, caught.value.second) == (Place(*first), Place(*second))


def test_more_rows_than_cells_end_the_reading_at_once() -> None:
    cells = filled(([0, 1], [0, 0]))
    with pytest.raises(RepeatedCellError):
        cells.add(Place(1, 0), int_array(1), int_array(0), {"compute": np.ones(1)}, {})
