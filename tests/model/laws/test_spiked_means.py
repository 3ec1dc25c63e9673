"""Means of steps with spikes beside heavy tails, against sums in closed form and by quadrature."""

import numpy as np
import pytest
from scipy import special, stats

from service.model.distributions import Floats, Gamma, Law, LogNormal, Normal, Pareto
from service.model.laws.bumpy_means import score_curve
from service.model.laws.source import Source
from service.model.laws.spiked_means import Steps, numbers_of_spikes, spiked_score_curve
from service.model.laws.step_atoms import atoms_of_step


def steps_of(law: Law, cv: float, spike: tuple[float, float], steps: int) -> Steps:
    return Steps(law, np.array([[cv], [0.0]]), *spike, steps)


@pytest.mark.parametrize("steps", [5, 700])
@pytest.mark.parametrize("probability", [0.0, 1e-4, 0.3, 1.0])
def test_numbers_are_binomial(steps: int, probability: float) -> None:
    numbers, shares = numbers_of_spikes(steps, probability)
    assert shares == pytest.approx(stats.binom.pmf(numbers, steps, probability), rel=1e-9)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(numbers) == 1).all()


def sums_of_two(cv: float, spike: tuple[float, float], x: Floats) -> Floats:
    """P of the mean of two lognormal steps, over the expectation, above x: by the midpoint rule."""
    probability, slowdown = spike
    sd = np.sqrt(np.log1p(cv**2))
    z = np.linspace(-9, 9, 100_001)
    z = (z[1:] + z[:-1]) / 2
    weight = np.exp(-z * z / 2)
    weight /= weight.sum()
    y = np.exp(sd * z - sd**2 / 2)

    def above(t: Floats) -> Floats:
        plain: Floats = special.ndtr(-(np.log(np.maximum(t, 1e-300)) / sd + sd / 2))
        return plain

    total = 2 * x * (1 + probability * (slowdown - 1))
    found = []
    for t in total.tolist():
        given = [
            share * (weight @ ((1 - probability) * above(t - step) + probability * above(rest)))
            for share, step in ((1 - probability, y), (probability, slowdown * y))
            for rest in ((t - step) / slowdown,)
        ]
        found.append(sum(given))
    return np.array(found)


@pytest.mark.parametrize("spike", [(0.01, 2.0), (0.3, 5.0), (1e-4, 20.0)])
def test_two_lognormal_steps(spike: tuple[float, float]) -> None:
    x = np.array([0.5, 0.9, 1.1, 1.5, 2.5, 5.0])
    curve = spiked_score_curve(steps_of(LogNormal, 0.5, spike, 2))
    found = special.ndtr(-curve.at(np.log(x)))
    assert found == pytest.approx(sums_of_two(0.5, spike, x), rel=1e-6)


@pytest.mark.parametrize(("cv", "spike", "steps"), [(0.3, (0.02, 2.0), 20), (0.1, (0.05, 1.3), 60)])
def test_light_tails_agree_with_the_transform(
    cv: float, spike: tuple[float, float], steps: int
) -> None:
    source = Source(law=Gamma, shape=np.array([[cv], [0.0]]))
    expected = score_curve(atoms_of_step(source, *spike), steps)
    curve = spiked_score_curve(steps_of(Gamma, cv, spike, steps))
    score = np.array([-5.0, -2.0, 0.0, 1.0, 3.0, 5.0, 8.0])
    assert curve.at(expected.inverse(score)) == pytest.approx(score, abs=1e-8)


def test_steps_in_groups_agree_with_the_transform() -> None:
    source = Source(law=Gamma, shape=np.array([[0.3], [0.0]]))
    spike, steps = (0.1, 1.5), 205
    expected = score_curve(atoms_of_step(source, *spike), steps)
    curve = spiked_score_curve(steps_of(Gamma, 0.3, spike, steps))
    score = np.array([-5.0, -2.0, 0.0, 1.0, 3.0, 5.0, 7.0])
    assert curve.at(expected.inverse(score)) == pytest.approx(score, abs=1e-7)


def test_equal_groups() -> None:
    source = Source(law=Gamma, shape=np.array([[0.3], [0.0]]))
    expected = score_curve(atoms_of_step(source, 0.1, 1.5), 192)
    curve = spiked_score_curve(steps_of(Gamma, 0.3, (0.1, 1.5), 192))
    score = np.array([-4.0, 0.0, 2.0, 6.0])
    assert curve.at(expected.inverse(score)) == pytest.approx(score, abs=1e-7)


def test_always_spiked_is_never_spiked() -> None:
    always = spiked_score_curve(steps_of(Pareto, 0.3, (1.0, 4.0), 6))
    never = spiked_score_curve(steps_of(Pareto, 0.3, (0.0, 4.0), 6))
    log_x = np.linspace(-0.2, 2, 9)
    assert always.at(log_x) == pytest.approx(never.at(log_x), abs=1e-10)


def test_too_many_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.1 and slowdown 9\.0 in 2000 steps"):
        spiked_score_curve(steps_of(Normal, 0.05, (0.1, 9.0), 2000))
