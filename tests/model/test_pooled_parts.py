"""What the pooled slowest is put together from: compositions, states, panels, roots."""

from math import comb

import numpy as np
import pytest
from scipy import stats

from service.model.fleet import Episodes
from service.model.slowest.compositions import compositions_of, num_compositions, probabilities
from service.model.slowest.episodes import MAX_STATES, num_states, states_of
from service.model.slowest.falling_root import falling_root
from service.model.slowest.panels import interpolated, nodes_of


@pytest.mark.parametrize(("num_classes", "size"), [(1, 8), (2, 8), (3, 4), (4, 8)])
def test_compositions_are_all_ways_to_fill_a_block(num_classes: int, size: int) -> None:
    found = compositions_of(num_classes, size)
    assert len(found) == num_compositions(num_classes, size)
    assert len({tuple(row) for row in found.tolist()}) == len(found)
    assert (found >= 0).all()
    assert (found.sum(axis=1) == size).all()


def test_probabilities_of_compositions_are_hypergeometric() -> None:
    compositions = compositions_of(3, 4)
    counts = np.array([10.0, 3.0, 1.0])
    expected = stats.multivariate_hypergeom([10, 3, 1], 4).pmf(compositions.astype(int))
    np.testing.assert_allclose(probabilities(compositions, counts), expected, atol=1e-15)


def test_probabilities_between_whole_numbers_of_gpus_sum_up_to_1() -> None:
    compositions = compositions_of(2, 8)
    found = probabilities(compositions, np.array([[1e6, 90.5, 7.5], [9.5, 9.5, 0.5]]))
    np.testing.assert_allclose(found.sum(axis=0), 1, rtol=1e-12)


def test_states_hold_the_moments_of_the_binomial() -> None:
    """Listed or by Gauss nodes: mean, variance and skewness of the GPUs in an episode."""
    num_gpus = np.array([[1.0, 60.0, 5000.0, 1e6], [0.0, 4.0, 300.0, 0.0]])
    occupancy = np.array([0.2, 0.01, 0.05, 1e-4])
    ones = np.ones(4)
    states = states_of(num_gpus, Episodes(occupancy=occupancy, severity=ones, mean_hours=ones))
    np.testing.assert_allclose(states.weight.sum(axis=0), 1, rtol=1e-12)
    assert (states.num_gpus >= 0).all()
    np.testing.assert_allclose(
        states.num_gpus.sum(axis=1), np.broadcast_to(num_gpus.sum(axis=0), states.weight.shape)
    )
    for kind in range(2):
        slow = states.num_gpus[:, 2 + kind]
        mean = (states.weight * slow).sum(axis=0)
        variance = (states.weight * (slow - mean) ** 2).sum(axis=0)
        third = (states.weight * (slow - mean) ** 3).sum(axis=0)
        of_one = num_gpus[kind] * occupancy
        np.testing.assert_allclose(mean, of_one, rtol=1e-10)
        np.testing.assert_allclose(variance, of_one * (1 - occupancy), rtol=1e-9, atol=1e-14)
        expected = of_one * (1 - occupancy) * (1 - 2 * occupancy)
        np.testing.assert_allclose(third, expected, rtol=1e-6, atol=1e-13)


def test_the_number_of_states_is_bounded_for_three_classes() -> None:
    occupancy = np.array([0.01])
    assert num_states(np.array([[1e6]] * 3), occupancy).tolist() == [16**3]
    assert num_states(np.array([[1e6]] * 3), occupancy)[0] <= MAX_STATES
    assert num_states(np.array([[2.0], [1.0]]), occupancy).tolist() == [6]


def test_panels_reproduce_a_function_with_a_bend_at_an_edge() -> None:
    edges = np.array([[-1.0, 0.0], [0.0, 0.25], [0.0, 0.5], [2.0, 1.0]])
    nodes = nodes_of(edges)
    assert nodes.shape == (27, 2)
    table = interpolated(edges, np.stack([np.abs(nodes), np.exp(nodes)]))
    v = np.linspace(-1, 2, 301)[:, np.newaxis] * np.ones(2)
    found = table.values(v)
    np.testing.assert_allclose(found[0, :, 0], np.abs(v[:, 0]), atol=1e-13)
    inside = np.clip(v[:, 1], 0, 1)
    np.testing.assert_allclose(found[1, :, 1], np.exp(inside), rtol=1e-11)


def test_roots_of_steep_flat_and_jumping_functions() -> None:
    """One function for each column; the jump is at 1/3."""

    def function(x: np.ndarray) -> np.ndarray:
        third = np.where(x[2] < 1 / 3, 5.0, -1e-9)
        return np.stack([0.7 - x[0] ** 9, np.exp(-40 * x[1]) - 0.01, third])

    found = falling_root(function, np.zeros(3), np.ones(3))
    expected = [0.7 ** (1 / 9), np.log(100) / 40, 1 / 3]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_number_of_compositions_is_a_binomial_coefficient() -> None:
    assert num_compositions(3, 30) == comb(32, 2) == 496
