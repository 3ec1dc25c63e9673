from dataclasses import replace

import numpy as np

from service.model.recursion.lasting import lasting_factors, num_ranks
from service.model.recursion.scores import LANE, NODE, PERSISTENT, cluster_scores
from tests.model.fleets_for_tests import one_fleet


def test_persistent_factors_of_ranks_and_nodes() -> None:
    fleet = one_fleet(
        [(10, 1)], persistent=("normal", 0.1), node=("lognormal", 0.2), gpus_per_node=4
    )
    found = lasting_factors(fleet, 3, 2, 12)
    spread = np.log1p(0.04) ** 0.5
    of_node = np.exp(spread * cluster_scores(3, NODE, 2, 3) - spread**2 / 2)
    of_rank = 1 + 0.1 * cluster_scores(3, PERSISTENT, 2, 12)
    expected = of_rank * np.repeat(of_node, 4, axis=0)
    np.testing.assert_allclose(found[:10, 0], expected[:10], rtol=1e-14)
    # Ranks that only pad the cluster are waited for by nobody.
    assert (found[10:] == 0).all()


def test_slow_groups_on_random_ranks_of_nodes() -> None:
    fleet = one_fleet([(13, 1), (2, 1.5), (1, 2)], node=("normal", 1e-9), gpus_per_node=4)
    found = np.rint(2 * lasting_factors(fleet, 0, 64, 16)[:, 0]) / 2
    for kind, number in ((1.0, 13), (1.5, 2), (2.0, 1)):
        assert ((found == kind).sum(axis=0) == number).all()
    # Every rank is the slowest one in 16 clusters; 512 of them, 5 standard errors.
    often = (found == 2.0).sum(axis=1)
    assert (np.abs(often - 32) < 28).all()


def test_slow_groups_come_first_where_ranks_are_alike() -> None:
    found = lasting_factors(one_fleet([(3, 1), (1, 1.5)]), 0, 1, 4)
    assert found[:, 0, 0].tolist() == [1.5, 1.0, 1.0, 1.0]


def test_fractional_numbers_are_right_on_average() -> None:
    fleet = one_fleet([(3.75, 1), (0.25, 2)])
    assert num_ranks(fleet).tolist() == [4]
    slow = lasting_factors(fleet, 0, 100, 4)[0, 0] == 2
    assert slow.shape == (100 * LANE,)
    assert abs(slow.mean() - 0.25) < 5 * (0.25 * 0.75 / 800) ** 0.5


def test_the_slowest_stand_by() -> None:
    fleet = one_fleet([(6, 1)], persistent=("normal", 0.1))
    whole = lasting_factors(fleet, 1, 1, 6)
    kept = lasting_factors(replace(fleet, num_removed=np.array([2])), 1, 1, 6)
    order = np.sort(whole, axis=0)
    np.testing.assert_array_equal(np.sort(kept, axis=0)[2:], order[:4])
    assert (np.sort(kept, axis=0)[:2] == 0).all()
