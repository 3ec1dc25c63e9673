import numpy as np
import pytest

from service.calibration.spikes import largest_usual, spikes_of
from tests.calibration.compute_tables import factors_of


def test_rare_single_cells_are_found_with_their_rate() -> None:
    cells = factors_of((100, 20), rank=0.02, step=0.02, rest=0.01)
    places = [(3, 4), (50, 0), (51, 19), (98, 7)]
    for row, column in places:
        cells[row, column] *= 2.5
    found = spikes_of(cells, 0.9)
    assert list(zip(*np.nonzero(found.cells), strict=True)) == places
    assert found.found is not None
    assert found.found.num_spikes == 4
    assert found.found.probability.value == pytest.approx(4 / 2000)
    assert found.found.slowdown.value == pytest.approx(2.5, rel=0.03)
    assert found.found.slowdown.low is not None


def test_one_spike_has_no_interval_of_its_size() -> None:
    cells = factors_of((50, 20), rank=0.02, step=0.02, rest=0.01)
    cells[3, 4] *= 2.5
    found = spikes_of(cells, 0.9).found
    assert found is not None
    assert (found.slowdown.low, found.slowdown.method) == (None, "too_few")


@pytest.mark.parametrize("law", ["normal", "lognormal", "frequent"])
def test_what_a_law_brings_is_no_spike(law: str) -> None:
    rng = np.random.default_rng(3)
    cells = 1 + 0.05 * rng.standard_normal((200, 50))
    if law == "lognormal":
        cells = np.exp(0.3 * rng.standard_normal((200, 50)))
    if law == "frequent":
        cells[rng.random(cells.shape) < 0.05] *= 3
    found = spikes_of(cells, 0.9)
    assert found.found is None
    assert not found.cells.any()


@pytest.mark.parametrize(
    ("law", "cv"), [("exponential", 0.05), ("exponential", 0.1), ("pareto", 0.1)]
)
def test_the_cells_of_a_long_tail_are_no_spikes(law: str, cv: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        cells = 1 - cv + cv * rng.exponential(1, (200, 16))
        if law == "pareto":
            cells = rng.random((200, 16)) ** (-1 / (1 + np.sqrt(1 + cv**-2)))
        assert spikes_of(cells, 0.9).found is None
    cells[50, 3] *= 6
    found = spikes_of(cells, 0.9)
    assert np.argwhere(found.cells).tolist() == [[50, 3]]


def test_the_largest_usual_one_is_that_of_the_law() -> None:
    rng = np.random.default_rng(8)
    normal = largest_usual(0.03 * rng.standard_normal(200_000))
    # Phi^-1(1 - 1e-3 / 200 000) = 5.731
    assert normal == pytest.approx(0.03 * 5.731, rel=0.04)
    exponential = largest_usual(0.03 * rng.exponential(1, 200_000))
    assert exponential == pytest.approx(0.03 * np.log(200_000 / 1e-3), rel=0.04)
    assert largest_usual(np.zeros(100)) == 0


def test_a_spike_without_which_its_step_had_one_rank_stays() -> None:
    cells = factors_of((60, 3), rank=0.0, step=0.02, rest=0.001)
    cells[7, 2] = np.nan
    cells[7, 1] *= 3
    found = spikes_of(cells, 0.9)
    assert found.found is None
