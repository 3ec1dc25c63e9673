import numpy as np

from service.calibration.missing_cells import missing_remarks

STEPS = np.arange(100, 150)


def details(cells: np.ndarray) -> list[str]:
    return [remark.detail for remark in missing_remarks(cells, STEPS)]


def test_a_few_cells_that_are_missing_are_no_matter() -> None:
    cells = np.ones((50, 8))
    cells[3:5] = np.nan
    cells[7, :4] = np.nan
    assert details(cells) == []


def test_many_are_said() -> None:
    cells = np.ones((50, 8))
    cells[::2, 2] = np.nan
    (detail,) = details(cells)
    assert detail.startswith("25 of 400 cells are missing")
    assert "fewer than half" not in detail
    cells[10:20, 3:] = np.nan
    (detail,) = details(cells)
    assert "in 10 of 50 steps fewer than half of the ranks were timed, such as step 110" in detail
