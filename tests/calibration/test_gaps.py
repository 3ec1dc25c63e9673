import numpy as np
import pytest

from service.calibration.gaps import gaps_of
from tests.calibration.compute_tables import observed_of_matrix, trace


def test_the_slowest_by_hand() -> None:
    cells = np.array([[10.0, 20, 30], [10, 40, 20], [np.nan, 10, 30], [20, 10, 40]])
    found = gaps_of(observed_of_matrix(cells), 0.9)
    assert found.most_often_slowest_rank == 2
    assert found.most_often_slowest_fraction == 0.75
    assert [row.slowest_to_median_ratio for row in found.steps] == [1.5, 2, 1.5, 2]
    assert found.slowest_to_median_mean_ratio.value == 1.75
    assert found.max_to_mean_ratio.value == pytest.approx(
        (1.5 + 40 / (70 / 3) + 1.5 + 40 / (70 / 3)) / 4
    )
    assert found.slowest_to_median_mean_ms == pytest.approx((10 + 20 + 10 + 20) / 4)


@pytest.mark.parametrize(("name", "expected"), [("st", 1.4136), ("ar", 2.1509)])
def test_the_public_traces(name: str, expected: float) -> None:
    timings = trace(name, with_stages=False)
    found = gaps_of(observed_of_matrix(timings.compute_ms, steps=timings.steps), 0.9)
    assert found.max_to_mean_ratio.value == pytest.approx(expected, abs=5e-5)


def test_long_runs_are_thinned() -> None:
    cells = np.random.default_rng(0).random((2000, 3)) + 1
    found = gaps_of(observed_of_matrix(cells), 0.9)
    assert len(found.steps) == 500
    assert (found.steps[0].step, found.steps[-1].step) == (0, 1999)


def test_how_alike_neighbouring_steps_are_is_told() -> None:
    generator = np.random.default_rng(3)
    common = np.zeros(400)
    for step in range(1, 400):
        common[step] = 0.9 * common[step - 1] + generator.standard_normal()
    shared = (1 + 0.02 * common[:, np.newaxis]) * (1 + 0.001 * generator.random((400, 8)))
    alike = gaps_of(observed_of_matrix(300 * shared), 0.9).slowest_autocorrelation
    assert alike == pytest.approx(0.9, abs=0.06)
    free = 300 * (1 + 0.02 * generator.random((400, 8)))
    assert gaps_of(observed_of_matrix(free), 0.9).slowest_autocorrelation < 0.15
