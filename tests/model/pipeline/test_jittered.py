"""What the makespans of jittered replicas are made of."""

import numpy as np

from service.model.pipeline.jitter import Jitter
from service.model.pipeline.jittered import Pick, jittered_replicas
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.step_factors import DrawnSteps
from tests.model.fleets_for_tests import source
from tests.model.pipeline.piped_fleets import cluster_of

LANES, REPLICAS = range(2, 4), range(1, 3)
PICKS = [Pick(1, 0), Pick(0, 1)]


def test_operations_of_one_gpu_and_of_alike_ones() -> None:
    for size in (1, 2):
        cluster = cluster_of(
            jitter=("gamma", 0.2), replica=("normal", 0.1), tensor=size, replicas=3
        )
        drawn = DrawnSteps(cluster, 0)
        replicas = jittered_replicas(cluster, drawn, 0)
        assert replicas is not None
        (factors,) = drawn.of_round(LANES, REPLICAS, each_gpu=True)
        (found,) = replicas.of_step(factors, 0, LANES, REPLICAS, PICKS)
        jitter = Jitter(source(("gamma", 0.2)), 0, cluster.plan)
        for place, (replica, lane) in enumerate(((2, 2), (1, 3))):
            columns = slice(place * LANE, (place + 1) * LANE)
            alone = jitter.of_one(0, lane, replica)
            largest = jitter.of_largest(0, lane, replica, 2)
            expected = alone if size == 1 else largest
            np.testing.assert_array_equal(found.jitter[:, columns], expected)
            draws = slice((lane - 2) * LANE, (lane - 1) * LANE)
            shared = factors.shared[replica - 1, draws]
            np.testing.assert_allclose(found.factor[:, columns], [shared] * 3, rtol=1e-12)


def test_operations_of_gpus_that_differ() -> None:
    cluster = cluster_of(jitter=("gamma", 0.2), transient=("normal", 0.1), tensor=2, replicas=3)
    drawn = DrawnSteps(cluster, 0)
    replicas = jittered_replicas(cluster, drawn, 0)
    assert replicas is not None
    (factors,) = drawn.of_round(LANES, REPLICAS, each_gpu=True)
    (found,) = replicas.of_step(factors, 0, LANES, REPLICAS, PICKS)
    jitter = Jitter(source(("gamma", 0.2)), 0, cluster.plan)
    expected = jitter.of_slowest(0, 2, 2, factors.own[1][..., :LANE])
    np.testing.assert_array_equal(found.jitter[:, :LANE], expected)
    np.testing.assert_array_equal(found.factor, 1)


def test_none_without_jitter() -> None:
    cluster = cluster_of()
    assert jittered_replicas(cluster, DrawnSteps(cluster, 0), 0) is None
