"""Makespans of one random replica."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from service.model.pipeline import blocks_of_draws
from service.model.pipeline import replica_makespans as module
from service.model.pipeline.replica_makespans import ReplicaMakespans, replica_makespans
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.drawn_by_hand import replicas_by_hand
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans, ints, piped_fleet


def _found(given: dict[str, Any], draws: int = 1000) -> ReplicaMakespans:
    return replica_makespans(piped_fleet(**given), ints(0), ints(draws))


@pytest.mark.parametrize(
    "given",
    [
        {"transient": ("normal", 0.1), "tensor": 2},
        {"transient": ("normal", 0.1), "replica": ("gamma", 0.1), "replicas": 7},
        {"common": ("normal", 0.1)},
        {"persistent": ("normal", 0.1), "num_removed": 2, "slow": [(1, 1.5, RANDOM)]},
        {"jitter": ("gamma", 0.3), "tensor": 2, "common": ("normal", 0.1)},
        {"jitter": ("gamma", 0.3), "tensor": 2, "transient": ("normal", 0.1)},
        {"episodes": (0.1, 1.5)},
        {"episodes": (0.1, 1.5), "transient": ("normal", 0.1)},
        {"slow": [(2, 1.5, 1)], "transient": ("normal", 0.05), "replicas": 5},
    ],
)
def test_against_replicas_drawn_by_hand(given: dict[str, Any]) -> None:
    by_hand = replicas_by_hand(given, 4000)[0]
    found = _found(given)
    # Draws of one step share their luck.
    error = np.hypot(by_hand.mean(axis=1).std() / 4000**0.5, found.mean_se[0])
    assert abs(found.mean[0] - by_hand.mean()) < 4 * error
    for probability, quantile in ((0.5, found.p50[0]), (0.95, found.p95[0])):
        scatter = (probability * (1 - probability) / 1000) ** 0.5
        assert (by_hand < quantile - 1e-9).mean() < probability + 4 * scatter
        assert (by_hand < quantile + 1e-9).mean() > probability - 4 * scatter


def test_busy_stages() -> None:
    given: dict[str, Any] = {"transient": ("normal", 0.1), "tensor": 2}
    found = _found(given, draws=3000)
    nominal = cluster_of().busy
    # The larger of two normal factors: 1 + 0.1 / sqrt(pi).
    np.testing.assert_allclose(
        found.busy_mean[:, 0], nominal * (1 + 0.1 / np.pi**0.5), rtol=4 * 0.1 / 6000**0.5
    )
    jittered = _found({"jitter": ("normal", 0.1), "tensor": 2})
    np.testing.assert_allclose(
        jittered.busy_mean[:, 0], nominal * (1 + 0.1 / np.pi**0.5), rtol=1e-3
    )


def test_all_placements_of_slow_gpus() -> None:
    given: dict[str, Any] = {"slow": [(2, 1.5, RANDOM), (1, 1.2, 0)]}
    found = _found(given)
    lanes = []
    for pair in combinations(range(1, 6), 2):
        factor = np.ones(6)
        factor[0] = 1.2
        factor[list(pair)] = 1.5
        lanes += [factor[:3], factor[3:]]
    factors = np.array(lanes).T[:, np.newaxis, np.newaxis]
    makespans = event_makespans(cluster_of(), factors)
    assert found.mean[0] == pytest.approx(makespans.mean(), rel=1e-12)
    assert found.mean_se[0] == 0
    expected = np.quantile(makespans, [0.5, 0.95], method="inverted_cdf")
    np.testing.assert_allclose([found.p50[0], found.p95[0]], expected, rtol=1e-12)
    busy = cluster_of().busy * factors.mean(axis=(1, 2, 3))
    np.testing.assert_allclose(found.busy_mean[:, 0], busy, rtol=1e-12)


def test_of_many_replicas_each_counts_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three of 101 are slow: whoever is looked at more often than others must not count more.
    given: dict[str, Any] = {
        "slow": [(3, 2.0, 1)],
        "replicas": 101,
        "common": ("normal", 1e-9),
    }
    monkeypatch.setattr(module, "MAKESPANS", 16)
    # Few at a time, so that in some blocks there is none to look at.
    monkeypatch.setattr(blocks_of_draws, "_AT_ONCE", 200)
    factor = np.ones((3, 1, 1, 2))
    factor[1, ..., 0] = 2.0
    slow, nominal = event_makespans(cluster_of(), factor)
    for draws in (16, 80, 1000):
        found = _found(given, draws=draws)
        assert found.mean[0] == pytest.approx((3 * slow + 98 * nominal) / 101, rel=1e-6)


def test_every_point_by_itself() -> None:
    one = _found({"transient": ("normal", 0.1)}, draws=100)
    again = _found({"transient": ("normal", 0.1), "replicas": 2}, draws=100)
    np.testing.assert_array_equal(one.mean, again.mean)
    assert one.busy_mean.shape == (3, 1)
