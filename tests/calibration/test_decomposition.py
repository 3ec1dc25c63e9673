import numpy as np
import pytest

from service.calibration.decomposition import two_way
from service.calibration.refusals import TimingsRefusedError


def test_whole_tables_are_plain_means() -> None:
    cells = np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0], [2.0, 6.0, 7.0]])
    table = two_way(cells)
    assert table.mean == pytest.approx(39 / 9)
    assert table.rest_dof == 4
    # E: variance of means of ranks; that of the rest counts 1/steps in it
    assert table.rank_square == pytest.approx(cells.mean(axis=0).var(ddof=1))
    assert table.step_square == pytest.approx(cells.mean(axis=1).var(ddof=1))
    assert table.rank_noise == pytest.approx(1 / 3)


def test_with_missing_cells_it_is_least_squares() -> None:
    rng = np.random.default_rng(5)
    cells = rng.standard_normal((9, 6)) + rng.standard_normal(6) + rng.standard_normal((9, 1)) + 10
    cells[rng.random(cells.shape) < 0.25] = np.nan
    table = two_way(cells)
    rows, columns = np.nonzero(np.isfinite(cells))
    design = np.zeros((len(rows), 15))
    design[np.arange(len(rows)), rows] = 1
    design[np.arange(len(rows)), 9 + columns] = 1
    values = cells[rows, columns]
    by_lstsq = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    assert np.allclose(table.rest[rows, columns], values - by_lstsq, atol=1e-8)
    assert table.rest_square == pytest.approx(
        ((values - by_lstsq) ** 2).sum() / (len(rows) - 14), rel=1e-9
    )
    only_steps = design[:, :9] @ np.linalg.lstsq(design[:, :9], values, rcond=None)[0]
    gained = ((values - only_steps) ** 2).sum() - ((values - by_lstsq) ** 2).sum()
    assert table.rank_square == pytest.approx(gained / (len(rows) - 9), rel=1e-9)


def test_its_expectations_hold_with_missing_cells() -> None:
    rng = np.random.default_rng(11)
    missing = rng.random((12, 8)) < 0.3
    found = []
    for _ in range(300):
        cells = 10 + 2 * rng.standard_normal(8) + 3 * rng.standard_normal((12, 1))
        cells = cells + rng.standard_normal((12, 8))
        cells[missing] = np.nan
        table = two_way(cells)
        found.append(
            (
                table.rest_square,
                table.rank_square - table.rank_noise * table.rest_square,
                table.step_square - table.step_noise * table.rest_square,
            )
        )
    means, errors = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(means - [1, 4, 9]) < 4 * errors)


def test_ranks_that_share_no_step_are_refused() -> None:
    cells = np.full((4, 4), np.nan)
    cells[:2, :2], cells[2:, 2:] = [[1, 2], [3, 5]], [[1, 2], [3, 5]]
    with pytest.raises(TimingsRefusedError, match="2 groups without a common step"):
        two_way(cells)
    cells[1, 2] = 3.0
    assert np.isfinite(two_way(cells).rest_square)


def test_one_rank_of_each_stage_leaves_nothing_for_ranks() -> None:
    assert two_way(np.array([[1.0, 2.0], [2.0, 4.0]]), num_kinds=2).rank_square == 0
    assert two_way(np.array([[1.0], [2.0]])).rank_noise == 0


def test_a_chain_of_ranks_ends_after_a_thousand_rounds() -> None:
    # each step is shared by two neighbours only: alternating means come no closer for long
    cells = np.full((80, 81), np.nan)
    for step in range(80):
        cells[step, step : step + 2] = [1.0, 2.0]
    assert np.isfinite(two_way(cells).of_rank).all()
