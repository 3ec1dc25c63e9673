"""Sizes, nominal times and slow GPUs of one cluster."""

from dataclasses import replace

import numpy as np
import pytest

from service.model.pipeline.one_cluster import SlowGroup, clusters_of
from service.model.pipeline.shape import RANDOM, WORST
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans, piped_fleet, times_of


def test_sizes() -> None:
    cluster = cluster_of(replicas=3, stages=4, tensor=2, num_removed=2, persistent=("normal", 0.1))
    assert (cluster.num_replicas, cluster.stages, cluster.tensor_size) == (3, 4, 2)
    assert (cluster.num_held, cluster.num_removed, cluster.num_working) == (26, 2, 24)
    assert cluster.differs_lastingly
    assert cluster.is_random


def test_slow_gpus_stand_by_first_the_slowest_before_others() -> None:
    slow = [(2, 1.2, RANDOM), (2, 1.5, 1), (2, 1.5, WORST), (1, 1.1, 0)]
    cluster = cluster_of(slow, num_removed=5)
    # Of equal ones the last group's.
    assert cluster.slow_groups == (SlowGroup(1, 1.2, RANDOM), SlowGroup(1, 1.1, 0))
    assert (cluster.num_held, cluster.num_removed) == (6, 0)
    assert cluster.random_groups == (SlowGroup(1, 1.2, RANDOM),)
    three = cluster_of(slow, num_removed=3)
    assert three.slow_groups[:2] == (SlowGroup(2, 1.2, RANDOM), SlowGroup(1, 1.5, 1))


def test_where_chance_makes_gpus_slow_for_good_none_is_gone_yet() -> None:
    cluster = cluster_of([(2, 1.2, RANDOM)], num_removed=2, node=("normal", 0.1))
    assert cluster.slow_groups == (SlowGroup(2, 1.2, RANDOM),)
    assert cluster.num_removed == 2


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_makespans(schedule: str) -> None:
    cluster = cluster_of(schedule=schedule, stages=4, microbatches=6)
    factor = np.random.default_rng(0).lognormal(0, 0.2, (4, 10))
    expected = event_makespans(cluster, factor[:, np.newaxis, np.newaxis])
    np.testing.assert_allclose(cluster.makespans(factor), expected, rtol=1e-12)


def test_nominal_times() -> None:
    cluster = cluster_of(stages=3, microbatches=4)
    forward, backward = times_of(3, 4)
    np.testing.assert_allclose(cluster.busy, 4 * (forward + backward), rtol=1e-12)
    assert cluster.busy.mean() == pytest.approx(1, rel=1e-12)
    times = cluster.operation_times
    assert len(times) == 3 * 4 * 2
    of_stage = np.bincount(cluster.plan.stage, times)
    np.testing.assert_allclose(of_stage, cluster.busy, rtol=1e-12)


def test_a_fleet_without_pipeline_has_no_such_clusters() -> None:
    with pytest.raises(ValueError, match="no pipeline"):
        clusters_of(replace(piped_fleet(), pipeline=None))
