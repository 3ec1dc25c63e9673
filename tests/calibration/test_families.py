import numpy as np
import pytest

from service.calibration.autocorrelation import NO_MEMORY
from service.calibration.families import expected_largest, family_of, skew_of_family
from service.calibration.findings import Family
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
    if law == "exponential":
        return np.asarray(1 - cv + cv * rng.exponential(1, shape))
    if law == "pareto":
        power = 1 + np.sqrt(1 + cv**-2)
        return np.asarray((power - 1) / power * rng.random(shape) ** (-1 / power))
    if law == "skewed":
        # Gamma of shape 4, shifted: skewness 1
        return np.asarray(1 + cv * (rng.gamma(4, 1, shape) - 4) / 2)
    if law == "gamma":
        return np.asarray(rng.gamma(cv**-2, cv**2, shape))
    scores = rng.standard_normal(shape)
    if law == "normal":
        return 1 + cv * scores
    log_sd = np.sqrt(np.log1p(cv**2))
    return np.asarray(np.exp(log_sd * scores - log_sd**2 / 2))


@pytest.mark.parametrize("law", ["normal", "gamma", "lognormal", "exponential", "pareto"])
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


@pytest.mark.parametrize(
    ("law", "shape", "family"),
    [
        # Few ranks have the same maximum in every family; the skewness of all cells tells.
        ("exponential", (40, 8), "exponential"),
        ("normal", (200, 16), "normal"),
        ("gamma", (200, 16), "gamma"),
        ("skewed", (200, 16), "shifted_gamma"),
    ],
)
def test_the_skewness_tells_where_the_maximum_does_not(
    law: str, shape: tuple[int, int], family: str
) -> None:
    cells = drawn(law, 0.1, shape)
    found = family_of(cells, np.arange(len(cells)), blocks_of(len(cells)), 0.1, NO_MEMORY)
    assert found.chosen == family
    assert not found.is_ruled_out
    assert (found.skew is not None) == (family == "shifted_gamma")
    # stragglers.md, 2.2: an exponential law's largest of N is 1 + cv (H_N - 1)
    exponential = next(one for one in found.candidates if one.family == "exponential")
    harmonic = sum(1 / k for k in range(1, shape[1] + 1))
    largest = exponential.predicted_max_to_mean_ratio
    assert largest == pytest.approx(1 + 0.1 * (harmonic - 1), rel=0.005)


def test_two_ranks_are_symmetric() -> None:
    cells = drawn("exponential", 0.1, (400, 2))
    found = family_of(cells, np.arange(400), blocks_of(400), 0.1, NO_MEMORY)
    assert found.skew is None


@pytest.mark.parametrize(
    ("family", "cv", "expected"),
    [
        ("normal", 0.1, 0.0),
        ("gamma", 0.1, 0.2),
        ("lognormal", 0.1, 0.301),
        ("exponential", 0.1, 2.0),
        # a = 5 at cv = 1/sqrt(15): 2 (1 + a)/(a - 3) sqrt((a - 2)/a)
        ("pareto", 15**-0.5, 6 * 0.6**0.5),
        ("pareto", 0.0, 2.0),
    ],
)
def test_skewness_of_families(family: Family, cv: float, expected: float) -> None:
    assert skew_of_family(family, cv) == pytest.approx(expected, rel=1e-12)


def test_a_pareto_law_of_a_wide_spread_has_no_skewness() -> None:
    assert skew_of_family("pareto", 0.7) > 100


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
