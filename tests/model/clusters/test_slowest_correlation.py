import numpy as np
import pytest

from service.model.clusters.slowest_correlation import inflation, slowest_correlation


@pytest.mark.parametrize("r", [0.0, 0.05, 0.5, 0.9, 0.99, 0.999])
def test_one_gpu_remembers_what_its_score_remembers(r: float) -> None:
    assert slowest_correlation(1, np.array([r]))[0] == pytest.approx(r, abs=1e-5)


def test_two_gpus_against_the_closed_form() -> None:
    # max = (a + b + |a - b|) / 2: the covariance of |X| and |X'| of correlation r is
    # 2 / pi (r asin r + sqrt(1 - r^2) - 1); Var max = 1 - 1 / pi.
    r = np.array([0.1, 0.5, 0.9, 0.99])
    of_distance = 2 / np.pi * (r * np.arcsin(r) + np.sqrt(1 - r * r) - 1)
    wanted = (r / 2 + of_distance / 2) / (1 - 1 / np.pi)
    np.testing.assert_allclose(slowest_correlation(2, r), wanted, atol=1e-5)


def test_many_gpus_by_sampling() -> None:
    rng = np.random.default_rng(1)
    first = rng.standard_normal((20_000, 64))
    then = 0.9 * first + np.sqrt(1 - 0.81) * rng.standard_normal((20_000, 64))
    found = slowest_correlation(64, np.array([0.9]))[0]
    wanted = np.corrcoef(first.max(axis=1), then.max(axis=1))[0, 1]
    assert found == pytest.approx(wanted, abs=4 * (1 - found**2) / 20_000**0.5)


def test_the_inflation_is_that_of_the_slowest() -> None:
    found = inflation(np.array([1.0, 64.0, 1024.0, 64.0]), np.array([0.9, 0.9, 0.9, 0.0]))
    np.testing.assert_allclose(found[:2], [19, 6.93], rtol=2e-3)
    assert found[2] == pytest.approx(4.19, abs=0.01)
    assert found[3] == 1


def test_the_inflation_by_simulation() -> None:
    rng = np.random.default_rng(2)
    num_steps, num_gpus, windows = 400, 64, 250
    score = rng.standard_normal((windows, num_gpus))
    total, squares = np.zeros(windows), []
    for _ in range(num_steps):
        slowest = score.max(axis=1)
        total += slowest
        squares.append(slowest.var())
        score = 0.9 * score + np.sqrt(1 - 0.81) * rng.standard_normal(score.shape)
    ratio = (total / num_steps).var() / (np.mean(squares) / num_steps)
    found = inflation(np.array([64.0]), np.array([0.9]))[0]
    assert ratio == pytest.approx(found, rel=4 * (2 / windows) ** 0.5)


@pytest.mark.parametrize("phi", [0.01, 0.5, 0.99, 0.999])
def test_one_gpu_is_inflated_by_the_textbook_factor(phi: float) -> None:
    found = inflation(np.array([1.0]), np.array([phi]))[0]
    assert found == pytest.approx((1 + phi) / (1 - phi), rel=1e-3)
