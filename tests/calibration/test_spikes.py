import numpy as np
import pytest

from service.calibration.spikes import spikes_of
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


def test_a_spike_without_which_its_step_had_one_rank_stays() -> None:
    cells = factors_of((60, 3), rank=0.0, step=0.02, rest=0.001)
    cells[7, 2] = np.nan
    cells[7, 1] *= 3
    found = spikes_of(cells, 0.9)
    assert found.found is None
