"""How mean steps of clusters are spread, from a few steps each."""

import numpy as np
import pytest
from scipy import stats

from service.model.clusters.sampled_spread import Sampled
from service.model.laws.law import Floats
from service.model.pipeline.fitted_clusters import Drawn, Window, fitted

INNER = 4


def _still(number: int) -> Window:
    return Window(np.zeros(number), 0.3, lambda mean: mean)


def _drawn(
    seed: int, number: int, *, slope: float, left: float, noise: float, luck: float = 0.0
) -> Drawn:
    """Means 2 + slope x + left z of clusters, and averages of INNER steps with that noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(4 * number)
    mean = 2 + slope * x[:number] + left * rng.standard_normal(number)
    steps = mean + noise * rng.standard_normal((INNER, number))
    # The other predictors tell nothing.
    predictors = np.column_stack([x, rng.standard_normal(len(x)), np.full(len(x), 3.0)])
    return Drawn(
        steps.mean(axis=0),
        steps.var(axis=0, ddof=1) / INNER,
        luck * (1 + rng.standard_normal(number)),
        predictors,
    )


def _quantiles(mean: float, sd: float) -> Floats:
    return np.asarray(stats.norm.ppf([0.1, 0.5, 0.9], mean, sd))


@pytest.mark.parametrize(
    ("slope", "left", "noise"),
    [(0.1, 0.0, 0.05), (0.1, 0.05, 0.1), (0.0, 0.1, 0.1), (0.05, 0.0, 0.3)],
)
def test_quantiles_and_their_errors(slope: float, left: float, noise: float) -> None:
    number, sd = 128, np.hypot(slope, left)
    found = [
        fitted(_drawn(seed, number, slope=slope, left=left, noise=noise), _still(number), 7)
        for seed in range(16)
    ]
    quantiles = np.array([one.quantiles for one in found])
    errors = np.array([one.quantiles_se for one in found])
    spread = quantiles.std(axis=0, ddof=1)
    # Means and deviations of 16.
    bias = quantiles.mean(axis=0) - _quantiles(2, sd)
    assert (np.abs(bias) < 4 * spread / 16**0.5 + 0.02 * sd).all()
    assert (np.abs(np.log(errors.mean(axis=0) / spread)) < 0.55).all()
    z = [(one.mean - 2) / one.mean_se for one in found]
    assert 0.55 < np.std(z) < 1.6


def test_luck_belongs_to_the_mean() -> None:
    given = {"slope": 0.1, "left": 0.0, "noise": 0.0}
    without = fitted(_drawn(0, 64, **given), _still(64), 7)
    found = fitted(_drawn(0, 64, **given, luck=0.2), _still(64), 7)
    luck = _drawn(0, 64, **given, luck=0.2).luck
    np.testing.assert_allclose(found.quantiles - without.quantiles, luck.mean(), rtol=1e-9)
    # 0.2 / sqrt(64) on top.
    assert found.mean_se == pytest.approx(np.hypot(without.mean_se, 0.025), rel=0.5)
    assert found.mean_se > 1.3 * without.mean_se


def test_noise_of_the_window_and_what_the_mean_is_put_into() -> None:
    drawn = _drawn(0, 400, slope=0.1, left=0.0, noise=0.0)
    found = fitted(drawn, Window(np.full(400, 0.04), 0.3, lambda mean: mean + 1), 7)
    width = found.quantiles[2] - found.quantiles[0]
    assert width == pytest.approx(2 * 1.2816 * np.hypot(0.1, 0.2), rel=0.05)
    assert found.mean == pytest.approx(3, abs=0.02)
    assert found.reciprocal_mean == pytest.approx(1 / 3.3 * (1 + 0.05 / 3.3**2), rel=5e-3)
    assert found.reciprocal_sd == pytest.approx(np.hypot(0.1, 0.2) / 3.3**2, rel=0.05)
    assert found.reciprocal_mean_se > 0


def test_a_further_error() -> None:
    drawn = _drawn(0, 64, slope=0.1, left=0.0, noise=0.1)
    plain, more = (
        fitted(drawn, Window(np.zeros(64), 0.3, lambda mean: mean, error), 7) for error in (0, 0.04)
    )
    assert more.quantiles.tolist() == plain.quantiles.tolist()
    np.testing.assert_allclose(more.quantiles_se, np.hypot(plain.quantiles_se, 0.04))
    assert more.mean_se == pytest.approx(np.hypot(plain.mean_se, 0.04))
    of_rate = 0.04 / (0.3 + plain.mean) ** 2
    assert more.reciprocal_mean_se == pytest.approx(np.hypot(plain.reciprocal_mean_se, of_rate))


def test_noise_that_is_a_gamma() -> None:
    drawn = _drawn(0, 400, slope=0.0, left=0.0, noise=0.0)
    noise = np.append(np.full(200, 0.02), np.full(200, 0.06))
    found = fitted(drawn, Window(noise, 0.3, lambda mean: mean, shape=0.5), 7)
    gamma = stats.gamma(0.5, loc=2 - 0.2 * 0.5**0.5, scale=0.2 / 0.5**0.5)
    np.testing.assert_allclose(found.quantiles, gamma.ppf([0.1, 0.5, 0.9]), atol=0.01)
    assert (found.quantiles_se > 0).all()
    assert found.mean == pytest.approx(2, abs=1e-9)


def test_clusters_that_are_alike() -> None:
    ones = np.ones(16)
    drawn = Drawn(2 * ones, 0 * ones, 0 * ones, np.ones((64, 3)))
    found = fitted(drawn, _still(16), 7)
    assert found.quantiles.tolist() == pytest.approx([2, 2, 2], rel=1e-14)
    assert found.mean_se == pytest.approx(0, abs=1e-14)


def test_few_clusters_have_few_coefficients() -> None:
    found: Sampled = fitted(_drawn(0, 8, slope=0.1, left=0.0, noise=0.01), _still(8), 7)
    assert found.quantiles[0] < found.quantiles[1] < found.quantiles[2]
    assert np.isfinite(found.quantiles_se).all()
