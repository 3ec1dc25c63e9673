import numpy as np
import pytest

from service.calibration.autocorrelation import NO_MEMORY
from service.calibration.families import expected_largest, family_of
from service.calibration.fitted import blocks_of
from service.calibration.timings import FloatArray
from service.model.distributions import Law, LogNormal, Normal


@pytest.mark.parametrize(
    ("law", "cv", "num_ranks", "expected"),
    [
        # stragglers.md, 2.4 and 2.3
        (LogNormal, 0.05, 64, 1.1231309994),
        (Normal, 0.05, 64, 1.1171866733),
        (LogNormal, 0.14, 1024, 1.5590131780),
    ],
)
def test_expected_largest(law: Law, cv: float, num_ranks: int, expected: float) -> None:
    assert expected_largest(law, num_ranks, cv) == pytest.approx(expected, rel=1e-8)
    assert expected_largest(law, 1, cv) == expected_largest(law, 8, 0.0) == 1


def drawn(law: str, cv: float, shape: tuple[int, int]) -> FloatArray:
    rng = np.random.default_rng(2)
    if law == "gamma":
        return np.asarray(rng.gamma(cv**-2, cv**2, shape))
    scores = rng.standard_normal(shape)
    if law == "normal":
        return 1 + cv * scores
    log_sd = np.sqrt(np.log1p(cv**2))
    return np.asarray(np.exp(log_sd * scores - log_sd**2 / 2))


@pytest.mark.parametrize("law", ["normal", "gamma", "lognormal"])
def test_the_family_that_was_drawn_is_chosen(law: str) -> None:
    cells = drawn(law, 0.2, (400, 128))
    found = family_of(cells, np.arange(400), blocks_of(400), 0.2, NO_MEMORY)
    assert found.is_decided
    assert found.chosen == law
    errors = {fit.family: abs(fit.relative_error) for fit in found.candidates}
    assert errors[found.chosen] == min(errors.values())
    assert errors[found.chosen] < 0.01


def test_small_spreads_are_alike_in_every_family() -> None:
    cells = drawn("gamma", 0.01, (40, 16))
    found = family_of(cells, np.arange(40), blocks_of(40), 0.01, NO_MEMORY)
    assert not found.is_decided
    assert found.chosen == "normal"


def test_a_normal_law_is_not_chosen_where_the_model_refuses_it() -> None:
    cells = np.abs(drawn("normal", 0.24, (200, 16)))
    found = family_of(cells, np.arange(200), blocks_of(200), 0.24, NO_MEMORY)
    assert found.chosen != "normal"


def test_where_none_fits_the_closest_is_taken() -> None:
    cells = drawn("lognormal", 0.9, (300, 200))
    found = family_of(cells, np.arange(300), blocks_of(300), 0.2, NO_MEMORY)
    assert not found.is_decided
    assert found.is_ruled_out
    errors = {fit.family: abs(fit.relative_error) for fit in found.candidates}
    assert found.chosen == min(errors, key=lambda family: errors[family])
