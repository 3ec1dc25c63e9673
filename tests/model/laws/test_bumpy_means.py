"""Means of spikes and of observed steps, against mixtures and families in closed form."""

import numpy as np
import pytest
from scipy import special, stats

from service.model.distributions import Floats, Gamma, Law, LogNormal, Normal, Pareto, table_of
from service.model.laws.bumpy_means import is_light, score_curve
from service.model.laws.source import Source
from service.model.laws.step_atoms import atoms_of_step

SURVIVAL = np.array([0.999, 0.9, 0.5, 0.1, 1e-3, 1e-6, 1e-9, 1e-13, 1e-17])


def source(law: Law, cv: float) -> Source:
    return Source(law=law, shape=np.array([[cv], [0.0]]))


@pytest.mark.parametrize(
    ("cv", "steps", "error"),
    [(0.05, 2, 1e-9), (0.3, 5, 1e-9), (0.3, 100, 1e-9), (1, 20, 1e-9), (0.6, 1000, 1e-9)],
)
def test_means_of_gammas_are_gammas(cv: float, steps: int, error: float) -> None:
    curve = score_curve(atoms_of_step(source(Gamma, cv), 0.0, 1.0), steps)
    k = steps / cv**2
    x = stats.gamma.isf(SURVIVAL, k) / k
    assert special.ndtr(-curve.at(np.log(x))) == pytest.approx(SURVIVAL, rel=error)


def mixture(cv: float, spike: tuple[float, float], steps: int, x: Floats) -> tuple[Floats, Floats]:
    """P(mean / expectation > x), P(... <= x): normal for every number of spikes."""
    probability, slowdown = spike
    number = np.arange(steps + 1)
    share = stats.binom.pmf(number, steps, probability)
    mean = steps + (slowdown - 1) * number
    sd = cv * np.sqrt(steps + (slowdown**2 - 1) * number)
    z = (x[:, np.newaxis] * steps * (1 + probability * (slowdown - 1)) - mean) / sd
    return special.ndtr(-z) @ share, special.ndtr(z) @ share


@pytest.mark.parametrize(
    ("cv", "spike", "steps", "error"),
    [
        (0.05, (0.01, 2.0), 2, 1e-8),
        (0.05, (0.01, 2.0), 10, 1e-9),
        (0.05, (0.001, 3.0), 100, 1e-9),
        (0.01, (0.01, 1.5), 10, 2e-8),
        (0.2, (0.1, 2.0), 30, 1e-9),
        (0.05, (0.5, 3.0), 1000, 1e-9),
        (0.05, (1.0, 3.0), 10, 1e-9),
        (0.05, (1e-5, 100.0), 100, 1e-7),
        (0.001, (0.01, 2.0), 10, 2e-3),
    ],
)
def test_normal_steps_with_spikes(
    cv: float, spike: tuple[float, float], steps: int, error: float
) -> None:
    curve = score_curve(atoms_of_step(source(Normal, cv), *spike), steps)
    log_x = (curve.edges[:-1] * 2 + curve.edges[1:]) / 3
    score = curve.at(log_x)
    chosen = np.abs(score - 1) < 7
    above, below = mixture(cv, spike, steps, np.exp(log_x[chosen]))
    upper = score[chosen] > 0
    assert special.ndtr(-score[chosen])[upper] == pytest.approx(above[upper], rel=error)
    assert special.ndtr(score[chosen])[~upper] == pytest.approx(below[~upper], rel=1e-3, abs=1e-13)


@pytest.mark.parametrize("law", [LogNormal, Pareto])
def test_heavy_tails_beside_spikes_are_not_light(law: Law) -> None:
    assert not is_light(atoms_of_step(source(law, 0.5), 0.01, 2.0), 10)
    assert is_light(atoms_of_step(source(Normal, 0.2), 0.01, 2.0), 10)
    assert is_light(atoms_of_step(source(table_of((1.0, 9.0)), 0.0), 0.0, 1.0), 10)


def test_where_phi_is_cut_off_the_middle_is_still_near() -> None:
    # A density that begins with a corner, of too few steps for it to vanish.
    curve = score_curve(atoms_of_step(source(Gamma, 0.9), 0.0, 1.0), 3)
    x = stats.gamma.isf(SURVIVAL[:4], 3 / 0.81) / (3 / 0.81)
    assert special.ndtr(-curve.at(np.log(x))) == pytest.approx(SURVIVAL[:4], abs=5e-3)


@pytest.mark.parametrize("steps", [2, 3])
def test_means_of_uniform_steps(steps: int) -> None:
    # Of quantiles 1 and 2: the sum of uniform variables (Irwin and Hall).
    curve = score_curve(atoms_of_step(source(table_of((1.0, 2.0)), 0.0), 0.0, 1.0), steps)
    for total in (0.3, 1.0, steps - 0.9, steps - 0.2):
        expected = sum(
            (-1) ** k * special.comb(steps, k) * max(total - k, 0) ** steps
            for k in range(steps + 1)
        ) / special.factorial(steps)
        x = (steps + total) / (1.5 * steps)
        found = special.ndtr(curve.at(np.log(np.array([x]))))[0]
        assert found == pytest.approx(expected, abs=2e-5)


def test_values_of_a_probability_of_their_own_stay_at_the_ends() -> None:
    # A third of the steps takes 1, a third 2, the others between; the mean is 1.5.
    table = table_of((1.0, 1.0, 2.0, 2.0))
    curve = score_curve(atoms_of_step(source(table, 0.0), 0.0, 1.0), 2)
    beyond = 0.02
    expected = (1 + 2 * beyond + beyond**2 / 2) / 9
    places = np.log(np.array([2 + beyond, 4 - beyond]) / 3)
    assert special.ndtr(curve.at(places[:1]))[0] == pytest.approx(expected, abs=1e-4)
    assert special.ndtr(-curve.at(places[1:]))[0] == pytest.approx(expected, abs=1e-4)
    outside = np.log(np.array([1.95, 4.05]) / 3)
    assert special.ndtr(curve.at(outside[:1]))[0] < 1e-100
    assert special.ndtr(-curve.at(outside[1:]))[0] < 1e-100


@pytest.mark.parametrize("steps", [1, 20])
def test_wide_normal_steps_are_cut_off_above_zero(steps: int) -> None:
    atoms = atoms_of_step(source(Normal, 0.3), 0.01, 1.5)
    curve = score_curve(atoms, steps)
    assert np.isfinite(curve.edges).all()
    assert curve.at(np.zeros(1))[0] == pytest.approx(0, abs=0.1)
