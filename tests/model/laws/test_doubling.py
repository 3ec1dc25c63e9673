"""Distributions of means by doubling, against families that stay themselves and against scipy."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from service.model.distributions import Floats, Gamma, Law, LogNormal, Pareto, Weibull
from service.model.laws.doubling import HIGHEST, LOWEST, from_scores, mean_of_steps
from service.model.laws.law import Light

# Survival, from the middle to the tail of ten million GPUs.
SURVIVAL = np.array([0.999, 0.9, 0.5, 0.1, 1e-3, 1e-6, 1e-9, 1e-13, 1e-17])


def shape(cv: float) -> Floats:
    return np.array([[cv], [0.0]])


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 63, 1025, 100_000])
@pytest.mark.parametrize("cv", [0.05, 0.3, 1.0])
def test_means_of_gammas_are_gammas(cv: float, steps: int) -> None:
    curve = mean_of_steps(Gamma, shape(cv), steps)
    k = steps / cv**2
    x = stats.gamma.isf(SURVIVAL, k) / k
    found = special.ndtr(-curve.score(x - 1))
    assert found[:-1] == pytest.approx(SURVIVAL[:-1], rel=2e-9)
    assert found[-1] == pytest.approx(SURVIVAL[-1], rel=5e-8)


@pytest.mark.parametrize("steps", [33, 65_537])
def test_a_single_step_beside_very_many(steps: int) -> None:
    curve = mean_of_steps(Gamma, shape(0.3), steps)
    k = steps / 0.09
    x = stats.gamma.isf(SURVIVAL, k) / k
    assert special.ndtr(-curve.score(x - 1)) == pytest.approx(SURVIVAL, rel=3e-5)
    assert special.ndtr(-curve.score(x - 1))[:7] == pytest.approx(SURVIVAL[:7], rel=2e-9)


class InverseGaussian(Light):
    """Of mean 1; the mean of n is one of cv / sqrt(n)."""

    @staticmethod
    def at_score(z: Floats, shape: Floats) -> Floats:
        law = frozen(shape[0, 0])
        top = optimize.brentq(lambda x: law.logsf(x) - special.log_ndtr(-HIGHEST), 1, 1e4)

        def excess(x: float, score: float) -> float:
            if score > 0:
                return float(law.logsf(x) - special.log_ndtr(-score))
            return float(special.log_ndtr(score) - law.logcdf(x))

        found = [optimize.brentq(excess, 1e-6, top * 1.1, (s,), xtol=1e-15) for s in z.ravel()]
        return np.reshape(found, z.shape)


def frozen(cv: float) -> Any:
    return stats.invgauss(cv**2, scale=cv**-2)


@pytest.mark.parametrize("cv", [0.1, 0.5])
@pytest.mark.parametrize("steps", [2, 25])
def test_means_of_inverse_gaussians_are_those(cv: float, steps: int) -> None:
    law: Any = InverseGaussian
    curve = mean_of_steps(law, shape(cv), steps)
    expected = frozen(cv / np.sqrt(steps))
    x = 1 + cv / np.sqrt(steps) * np.array([-2.0, -0.5, 0.5, 2.0, 5.0, 8.0])
    found = special.ndtr(-curve.score(x - 1))
    assert found == pytest.approx(expected.sf(x), rel=1e-8)


DENSITIES: list[tuple[Law, float, Any]] = [
    (LogNormal, 0.3, stats.lognorm(np.sqrt(np.log(1.09)), scale=1 / np.sqrt(1.09))),
    (LogNormal, 1.0, stats.lognorm(np.sqrt(np.log(2)), scale=1 / np.sqrt(2))),
    (Weibull, 1.0, stats.expon()),
    (Pareto, 1.0, stats.pareto(1 + np.sqrt(2), scale=np.sqrt(2) / (1 + np.sqrt(2)))),
]


def above(law: Any, t: float) -> float:
    """P(X + Y > t) of two, by quadrature in the smaller one."""
    half = t / 2
    low = law.support()[0]
    points = [p for p in law.ppf([1e-9, 1e-4, 0.1, 0.5, 0.9, 0.999]) if low < p < half]
    edges = np.unique([low, *points, half])
    total = sum(
        integrate.quad(lambda y: law.pdf(y) * law.sf(t - y), a, b, epsabs=0, epsrel=1e-11)[0]
        for a, b in pairwise(edges.tolist())
    )
    return float(2 * total + law.sf(half) ** 2)


@pytest.mark.parametrize(("law", "cv", "known"), DENSITIES)
def test_means_of_two_by_quadrature(law: Law, cv: float, known: Any) -> None:
    curve = mean_of_steps(law, shape(cv), 2)
    for score in (-2.0, 0.0, 1.5, 4.0, 7.0):
        beyond_one = curve.beyond_one(np.array([score]))[0]
        expected = above(known, 2 * (1 + beyond_one))
        assert special.ndtr(-score) == pytest.approx(expected, rel=2e-9)


@pytest.mark.parametrize(("law", "cv", "known"), DENSITIES)
def test_means_of_three_by_quadrature(law: Law, cv: float, known: Any) -> None:
    of_two = mean_of_steps(law, shape(cv), 2)
    curve = mean_of_steps(law, shape(cv), 3)
    t = 3 * (1 + curve.beyond_one(np.array([0.5, 3.0, 6.0])))
    y, weight = steps_of(known)
    rest = (t[:, np.newaxis] - y) / 2
    survival = np.where(rest > 0, special.ndtr(-of_two.score(rest - 1)), 1.0)
    found = survival @ weight
    assert special.ndtr(-np.array([0.5, 3.0, 6.0])) == pytest.approx(found, rel=2e-5)


def steps_of(law: Any) -> tuple[Floats, Floats]:
    """Middles of many small parts of one step, and their probabilities."""
    z = np.linspace(-8.2, 9, 400_001)
    middle: Callable[[Floats], Floats] = lambda s: np.where(  # noqa: E731 - one expression
        s > 0, law.isf(special.ndtr(-s)), law.ppf(special.ndtr(s))
    )
    inner = (z[1:] + z[:-1]) / 2
    lower, upper = special.ndtr(z), special.ndtr(-z)
    return middle(inner), np.where(inner > 0, upper[:-1] - upper[1:], lower[1:] - lower[:-1])


@pytest.mark.parametrize("steps", [1, 30])
def test_a_power_of_the_tail_remains(steps: int) -> None:
    # The single big jump: P(mean > t) is H P(X > H t) in the far tail.
    power = 1 + np.sqrt(2)
    curve = mean_of_steps(Pareto, shape(1.0), steps)
    x = 1 + curve.beyond_one(np.array([9.0, 10.5]))
    fall = np.diff(special.log_ndtr(-np.array([9.0, 10.5]))) / np.diff(np.log(x))
    assert -fall[0] == pytest.approx(power, rel=1e-4)
    rest = (steps - 1) / steps
    lowest = (power - 1) / power
    jump = steps * (steps * (x - rest) / lowest) ** -power
    assert special.ndtr(-np.array([9.0, 10.5])) == pytest.approx(jump, rel=1e-4)


@pytest.mark.parametrize("law", [LogNormal, Weibull, Pareto])
@pytest.mark.parametrize("cv", [1e-12, 1e-6])
def test_tiny_spreads_keep_their_form(law: Law, cv: float) -> None:
    # They are the spread times the same standard variable.
    tiny, small = (mean_of_steps(law, shape(value), 6) for value in (cv, 1e-5))
    z = np.array([-3.0, 0.0, 2.0, 6.0])
    standard = small.beyond_one(z) / 1e-5
    assert tiny.beyond_one(z) / cv == pytest.approx(standard, rel=5e-4, abs=5e-4)


def test_both_ways_agree_over_all_scores() -> None:
    curve = mean_of_steps(LogNormal, shape(0.5), 12)
    z = np.linspace(LOWEST + 0.01, 9.0, 500)
    assert curve.score(curve.beyond_one(z)) == pytest.approx(z, abs=1e-8)


def test_curves_from_scores_alone() -> None:
    curve = mean_of_steps(LogNormal, shape(0.5), 12)
    again = from_scores(curve.score_of)
    z = np.linspace(-7, 8, 50)
    assert again.beyond_one(z) == pytest.approx(curve.beyond_one(z), rel=1e-7, abs=1e-9)
