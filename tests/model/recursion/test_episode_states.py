import numpy as np
from scipy import stats

from service.model.recursion.episode_states import states_of_points
from tests.model.fleets_for_tests import one_fleet


def test_states_of_a_small_fleet() -> None:
    states = states_of_points(one_fleet([(3, 1), (1, 1.5)], episodes=(0.25, 2.0)))
    fleet = states.fleet
    assert fleet.episodes is None
    assert (states.point == 0).all()
    assert fleet.mean[:, 0].tolist() == [1, 1.5, 2, 3]
    found = {
        (int(nominal), int(slow)): weight
        for nominal, slow, weight in zip(*fleet.num_gpus[2:], states.weight, strict=True)
    }
    assert len(found) == 8
    for (nominal, slow), weight in found.items():
        expected = stats.binom.pmf(nominal, 3, 0.25) * stats.binom.pmf(slow, 1, 0.25)
        np.testing.assert_allclose(weight, expected, rtol=1e-9)
    np.testing.assert_allclose(fleet.num_gpus.sum(axis=0), 4)


def test_trifling_states_are_left_out() -> None:
    states = states_of_points(one_fleet([(8, 1)], episodes=(1e-4, 2.0)))
    assert len(states.weight) == 3
    np.testing.assert_allclose(states.weight.sum(), 1, rtol=1e-12)


def test_without_episodes_there_is_one_state() -> None:
    fleet = one_fleet([(8, 1)])
    states = states_of_points(fleet)
    assert states.fleet is fleet
    assert states.weight.tolist() == [1]
