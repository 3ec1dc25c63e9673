import numpy as np
import pytest
from scipy import stats

from service.model.clusters.cluster_draws import (
    Clusters,
    exponentials,
    lattice_scores,
    num_clusters,
)
from service.model.clusters.cluster_ranks import MAX_WHOLE, NUM_TOP, drawn_units, num_rows
from service.model.clusters.entry_sums import entry_sums

EVERYTHING = Clusters(3, 4096, 0, 4096)


def test_the_slowest_rank_has_the_law_of_a_maximum() -> None:
    drawn = drawn_units(EVERYTHING, 0, 1000.0)
    first = drawn.row == 0
    # U of the slowest of n is U^(1/n).
    uniform = np.exp(-1000 * np.exp(drawn.log_rank[first]))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


def test_the_ninth_slowest_has_the_law_of_an_order_statistic() -> None:
    drawn = drawn_units(EVERYTHING, 0, 1000.0, num_removed=9)
    ninth = np.exp(-np.exp(drawn.log_rank[drawn.row == 8]))
    assert len(ninth) == 4096
    assert stats.kstest(ninth, stats.beta(1000 - 8, 9).cdf).pvalue > 1e-4


def test_as_many_are_drawn_as_exceed_the_limit() -> None:
    drawn = drawn_units(EVERYTHING, 1, 1e6)
    assert drawn.number.mean() == pytest.approx(NUM_TOP, abs=4 * 4 / 64)
    assert drawn.number.std() == pytest.approx(4, rel=0.1)
    assert drawn.number.sum() == len(drawn.log_rank)


def test_small_classes_are_drawn_whole() -> None:
    drawn = drawn_units(EVERYTHING, 0, float(MAX_WHOLE))
    assert (drawn.number == MAX_WHOLE).all()
    assert drawn.limit == np.inf
    assert num_rows(1e7, 1024) > 1024
    assert num_rows(200.0, 190) == 200


def test_clusters_are_the_same_whatever_is_drawn_beside_them() -> None:
    whole = exponentials(EVERYTHING, 2, 20)
    part = exponentials(Clusters(3, 4096, 1000, 1010), 2, 12)
    np.testing.assert_array_equal(part, whole[:12, 1000:1010])
    other = exponentials(Clusters(4, 4096, 0, 4096), 2, 20)
    assert abs(np.corrcoef(whole[10], other[10])[0, 1]) < 0.1


def test_the_first_rows_are_latin_hypercubes_in_each_block() -> None:
    uniform = np.exp(-exponentials(EVERYTHING, 0, 9)).reshape(9, 8, 512)
    strata = np.sort((uniform * 512).astype(int), axis=2)
    assert (strata[:8] == np.arange(512)).all()
    assert not (strata[8] == np.arange(512)).all()


def test_scores_are_even() -> None:
    scores = lattice_scores(3, num_clusters(100))
    assert scores.shape == (104, 16)
    assert scores.mean() == pytest.approx(0, abs=1e-3)
    assert scores.var() == pytest.approx(1, abs=0.02)
    assert lattice_scores(3, 1 << 18).shape == (1 << 18, 1)


def test_sums_over_entries() -> None:
    rng = np.random.default_rng(4)
    place, cluster = rng.uniform(-3, 2, 500), rng.integers(0, 7, 500)
    sums = entry_sums(place, cluster, 8, 0.05)
    functions = np.exp(np.multiply.outer(sums.grid, np.array([0.5, 1.0])))
    wanted = np.array(
        [np.exp(place[cluster == c, None] * [0.5, 1.0]).sum(axis=0) for c in range(8)]
    )
    np.testing.assert_allclose(sums.matrix @ functions, wanted, rtol=1e-6)
    assert (entry_sums(np.empty(0), np.empty(0, dtype=np.intp), 3, 0.05).matrix == 0).all()
