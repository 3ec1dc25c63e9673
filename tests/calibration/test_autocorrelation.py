import numpy as np
import pytest

from service.calibration.autocorrelation import (
    _GRID,
    Expectation,
    memory_of_rest,
    memory_of_series,
)


def by_matrices(steps: list[int], phi: float) -> tuple[float, float]:
    """Expected ratio of sums, and S Var(mean)/Var, from the covariance matrix itself."""
    times = np.array(steps)
    covariance = phi ** np.abs(times[:, None] - times).astype(float)
    num = len(times)
    centre = np.eye(num) - 1 / num
    centred = centre @ covariance @ centre
    adjacent = np.flatnonzero(np.diff(times) == 1)
    ratio = centred[adjacent, adjacent + 1].mean() / (np.trace(centred) / num)
    return float(ratio), float(covariance.sum() / num)


@pytest.mark.parametrize("steps", [list(range(12)), [3, 4, 5, 9, 10, 30, 31, 32, 33]])
def test_expectations_are_those_of_the_covariance_matrix(steps: list[int]) -> None:
    found = Expectation(np.array(steps))
    for place in (np.abs(_GRID - 0.5).argmin(), np.abs(_GRID - 0.9).argmin()):
        ratio, inflation = by_matrices(steps, float(_GRID[place]))
        assert found.ratio[place] == pytest.approx(ratio, abs=1e-12)
        assert found.inflation[place] == pytest.approx(inflation, abs=1e-12)
        assert found.phi_of(ratio) == pytest.approx(_GRID[place], abs=0.02)


def autoregression(phi: float, shape: tuple[int, int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    series = rng.standard_normal(shape)
    for step in range(1, shape[0]):
        series[step] = phi * series[step - 1] + np.sqrt(1 - phi**2) * series[step]
    return series


def test_the_bias_of_short_series_is_gone() -> None:
    found = []
    for seed in range(150):
        rest = autoregression(0.5, (20, 12), seed)
        rest = rest - rest.mean(axis=0)
        rest -= rest.mean(axis=1)[:, np.newaxis]
        _, reported = memory_of_rest(rest, np.arange(20), 19 * 11, 0.9)
        assert reported.lag_1 is not None
        found.append(reported.lag_1.value)
    # uncorrected it would be some 0.37
    assert np.mean(found) == pytest.approx(0.5, abs=4 * np.std(found) / np.sqrt(150) + 0.005)


def test_without_adjacent_steps_nothing_is_told() -> None:
    rest = autoregression(0.0, (10, 4), 1)
    memory, reported = memory_of_rest(rest, np.arange(0, 30, 3), 27, 0.9)
    assert (memory.phi, reported.lag_1, reported.num_pairs) == (0, None, 0)
    assert reported.lags[0] is None
    assert reported.lags[2] is not None


def test_two_ranks_that_never_meet_again_have_no_later_lags() -> None:
    rest = np.full((12, 2), np.nan)
    rest[:6, 0], rest[6:, 1] = np.arange(6) - 2.5, np.arange(6) - 2.5
    _, reported = memory_of_rest(rest, np.arange(12), 10, 0.9)
    assert reported.lags[6] is None


def test_nothing_left_has_no_memory() -> None:
    _, reported = memory_of_rest(np.zeros((12, 3)), np.arange(12), 22, 0.9)
    assert reported.lag_1 is not None
    assert reported.lag_1.value == pytest.approx(Expectation(np.arange(12)).phi_of(0.0))


def test_a_series_of_few_adjacent_steps_is_taken_as_it_is() -> None:
    series = autoregression(0.9, (100, 1), 3)[:, 0]
    assert memory_of_series(series, np.arange(0, 200, 2)).phi == 0
    assert memory_of_series(series, np.arange(100)).phi > 0.6
