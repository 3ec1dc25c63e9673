"""What hardly varies, beside what does; and tables that begin at 0."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.model.fleet import Episodes, Spikes
from service.model.laws.empirical import table_of
from service.model.laws.source import Source
from service.model.slowest.pooled import pooled_slowest
from tests.model.brute_clusters import Floats, fleet, frozen, joined, source, spread


def removed(slowness: Floats, number: int) -> Floats:
    """(clusters,) the slowest of what is left; slowness is (clusters, gpus)."""
    left: Floats = np.sort(slowness, axis=1)[:, slowness.shape[1] - 1 - number]
    return left


def in_nodes(rng: np.random.Generator, law: Any, clusters: int, num_gpus: int, size: int) -> Floats:
    factors = law.rvs((clusters, -(-num_gpus // size)), random_state=rng)
    each: Floats = np.repeat(factors, size, axis=1)[:, :num_gpus]
    return each


def assert_like(found_mean: float, error: float, brute: Floats) -> None:
    expected = brute.std() / len(brute) ** 0.5
    assert abs(found_mean - brute.mean()) < 4 * np.hypot(error, expected)


@pytest.mark.parametrize("family", ["exponential", "pareto", "lognormal"])
def test_nodes_that_hardly_differ_lose_their_slow_gpus_first(family: str) -> None:
    of = fleet((63.0, 4.0), (1.0, 1.25), gpus_per_node=2, num_removed=3, node=source(family, 1e-9))
    found = spread(of)
    assert found.mean[0] == 1.25
    np.testing.assert_array_equal(found.quantiles[0], 1.25)
    assert found.reciprocal_sd[0] == found.mean_se[0] == 0
    assert spread(replace(of, num_removed=np.full(1, 4))).mean[0] == 1


def test_a_point_with_a_trifle_is_as_without_it_whatever_its_neighbours() -> None:
    given: dict[str, Any] = {"transient": source("gamma", 0.1), "gpus_per_node": 4}
    fleets = [
        fleet((32.0,), persistent=source("lognormal", cv), node=source("gamma", other), **given)
        for cv, other in ((0.05, 1e-9), (1e-9, 0.05), (0.05, 0.05))
    ]
    together = spread(joined(fleets)).mean
    np.testing.assert_allclose([spread(one).mean[0] for one in fleets], together, rtol=1e-12)
    without = [replace(fleets[0], node=None), replace(fleets[1], persistent=None)]
    np.testing.assert_allclose([spread(one).mean[0] for one in without], together[:2], rtol=1e-12)


def test_what_varies_a_trifle_is_told_where_it_is_all_there_is() -> None:
    of = fleet((64.0,), persistent=source("lognormal", 1e-7))
    # Of 64 normal scores the largest has the mean 2.388.
    assert spread(of).mean[0] - 1 == pytest.approx(2.388e-7, rel=0.02)


def test_spikes_and_episodes_of_a_trifle_are_none() -> None:
    plain = fleet((64.0,), node=source("exponential", 0.2), transient=source("gamma", 0.1))
    spikes = Spikes(probability=np.full(1, 0.1), slowdown=np.full(1, 1 + 1e-9))
    episodes = Episodes(
        occupancy=np.full(1, 0.01), severity=np.full(1, 1 + 1e-9), mean_hours=np.full(1, 1.0)
    )
    expected = spread(plain)
    found = spread(replace(plain, spikes=spikes, episodes=episodes))
    assert found.mean[0] == expected.mean[0]
    pooled = pooled_slowest(replace(plain, episodes=episodes))
    assert pooled.mean[0] == pooled_slowest(plain).mean[0]


@pytest.mark.parametrize(
    ("num_gpus", "size", "cv"), [(9, 8, 0.1), (8, 3, 0.1), (8, 3, 1e-4), (8, 2, 0.3)]
)
def test_equal_steps_without_the_slowest(num_gpus: int, size: int, cv: float) -> None:
    of = fleet((float(num_gpus),), gpus_per_node=size, num_removed=1, node=source("gamma", cv))
    found = spread(of, draws=4096)
    rng = np.random.default_rng(1)
    brute = removed(in_nodes(rng, frozen("gamma", cv), 100_000, num_gpus, size), 1)
    assert_like(found.mean[0], found.mean_se[0], brute)
    expected = np.quantile(brute, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(found.quantiles[0], expected, atol=0.06 * brute.std())


@pytest.mark.parametrize("cv", [1e-5, 2e-4, 1e-3, 1e-2])
def test_own_factors_far_narrower_than_the_nodes(cv: float) -> None:
    of = fleet(
        (17.0,),
        gpus_per_node=4,
        num_removed=1,
        node=source("lognormal", 0.1),
        persistent=source("lognormal", cv),
    )
    found = spread(of, draws=4096)
    rng = np.random.default_rng(2)
    slowness = in_nodes(rng, frozen("lognormal", 0.1), 60_000, 17, 4)
    slowness *= frozen("lognormal", cv).rvs(slowness.shape, random_state=rng)
    brute = removed(slowness, 1)
    # Own factors of a thousandth of the node's are none.
    assert_like(found.mean[0], np.hypot(found.mean_se[0], 2e-3 * 0.1), brute)


@pytest.mark.parametrize("cv", [1e-9, 1e-5, 1e-3, 2.3e-3])
def test_a_step_of_a_gpu_that_is_narrow_beside_its_groups(cv: float) -> None:
    of = fleet(
        (64.0,),
        gpus_per_node=16,
        tensor_parallel_size=8,
        node=source("shifted_gamma", 0.01),
        transient=source("lognormal", cv),
        replica=source("gamma", 0.04),
    )
    found = spread(of, draws=1024)
    pooled = pooled_slowest(of).mean[0]
    assert abs(found.mean[0] - pooled) < 4 * found.mean_se[0] + 2e-3 * (pooled - 1)


def test_only_the_points_whose_steps_are_narrow_are_taken_so() -> None:
    fleets = [
        fleet(
            (64.0,),
            tensor_parallel_size=8,
            node=source("gamma", 0.05),
            transient=source("lognormal", cv),
            replica=source("lognormal", 0.04),
        )
        for cv in (0.04, 1e-3)
    ]
    together = spread(joined(fleets)).mean
    np.testing.assert_allclose([spread(one).mean[0] for one in fleets], together, rtol=1e-12)


ZEROS = Source(law=table_of((0.0, 0.0, 0.0, 1.0)), shape=np.ones((2, 1)))


@pytest.mark.parametrize("lasting", ["persistent", "node"])
def test_a_table_that_begins_at_0(lasting: str) -> None:
    given: dict[str, Any] = {lasting: ZEROS, "transient": source("gamma", 0.1)}
    found = spread(fleet((64.0,), **given), draws=2048)
    rng = np.random.default_rng(3)
    number = 64 if lasting == "persistent" else 8
    factor = np.maximum(3 * rng.random((40_000, number)) - 2, 0) * 6
    slowness = np.repeat(factor, 64 // number, axis=1)
    brute = (slowness * frozen("gamma", 0.1).rvs(slowness.shape, random_state=rng)).max(axis=1)
    assert_like(found.mean[0], found.mean_se[0], brute)
    assert 0 < found.reciprocal_sd[0] < 1


@pytest.mark.parametrize("cv", [1e-4, 1e-2])
def test_slow_gpus_in_nodes_that_hardly_differ(cv: float) -> None:
    of = fleet(
        (5.0, 3.0), (1.0, 1 / 0.7), gpus_per_node=3, num_removed=1, node=source("lognormal", cv)
    )
    found = spread(of, draws=1024)
    # There are two slow GPUs left or, as places are sampled, none in a few clusters.
    assert 1 < found.mean[0] < (1 + 3 * cv) / 0.7
    np.testing.assert_allclose(found.quantiles[0, 1:], 1 / 0.7, rtol=3 * cv)


@pytest.mark.parametrize("cv", [1e-9, 1e-6, 1e-5, 1e-3])
def test_slow_gpus_in_nodes_that_differ_more_than_their_gpus(cv: float) -> None:
    of = fleet(
        (14.0, 3.0),
        (1.0, 1 / 0.7),
        gpus_per_node=4,
        num_removed=1,
        node=source("lognormal", 0.1),
        persistent=source("lognormal", cv),
    )
    found, alone = spread(of), spread(replace(of, persistent=None))
    np.testing.assert_allclose(found.quantiles, alone.quantiles, rtol=5e-3)


def test_spikes_beside_a_table_that_begins_at_0() -> None:
    spikes = Spikes(probability=np.full(1, 0.01), slowdown=np.full(1, 2.0))
    of = fleet((64.0,), persistent=ZEROS, spikes=spikes)
    found = spread(of, draws=1024)
    pooled = pooled_slowest(of).mean[0]
    assert abs(found.mean[0] - pooled) < 5 * found.mean_se[0] + 5e-3 * (pooled - 1)


def test_no_moments_where_some_clusters_take_no_time() -> None:
    of = fleet((64.0,), node=ZEROS, transient=source("gamma", 0.1))
    found = spread(replace(of, outside_ratio=np.zeros(1)))
    assert np.isnan([found.reciprocal_mean[0], found.reciprocal_sd[0]]).all()
    assert np.isfinite(found.quantiles).all()
