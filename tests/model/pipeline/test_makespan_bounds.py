"""Bounds on makespans hold, for all schedules."""

import numpy as np
import pytest

from service.model.pipeline import SCHEDULES
from service.model.pipeline.makespan_bounds import MakespanBounds
from tests.model.pipeline.piped_fleets import cluster_of

CHUNKS = {"interleaved_1f1b": 2, "looped_bfs": 2, "zbv": 2, "interleaved_zb1p": 2, "dualpipev": 2}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_makespan_is_above(schedule: str) -> None:
    number = 1 if schedule == "naive" else 8
    rng = np.random.default_rng(0)
    for p2p in (0.0, 0.05):
        cluster = cluster_of(
            schedule=schedule,
            stages=4,
            microbatches=number,
            chunks=CHUNKS.get(schedule, 1),
            p2p=p2p,
            weight_fraction=0.3,
        )
        bounds = MakespanBounds(cluster)
        for cv in (0.02, 0.3, 3.0):
            factor = rng.lognormal(0, cv, (5, 4, 40))
            found = bounds.upper(factor)
            makespan = cluster.makespans(factor.transpose(1, 0, 2).reshape(4, -1))
            assert (found.ravel() >= makespan * (1 - 1e-12)).all()


def test_tight_for_equal_stages_and_for_one_slow_one() -> None:
    equal = cluster_of(times=([0.1, 0.1], [0.2, 0.2]), stages=2, microbatches=4, p2p=0.0)
    bounds = MakespanBounds(equal)
    factor = np.array([[[1.0], [1.0]], [[1.0], [1.5]], [[10.0], [10.0]]])
    found = bounds.upper(factor)[:, 0]
    # (M + P - 1)(f + b), and M (f + b) of a slow last stage more.
    np.testing.assert_allclose(found, [1.5, 1.5 + 0.5 * 1.2, 15], rtol=1e-4)
    np.testing.assert_allclose(equal.makespans(factor[..., 0].T), [1.5, 2.1, 15], rtol=1e-12)


def test_one_stage() -> None:
    cluster = cluster_of(stages=1)
    factor = np.array([[[0.5, 1.0, 9.0]]])
    found = MakespanBounds(cluster).upper(factor)
    np.testing.assert_allclose(found, cluster.makespans(factor[0])[np.newaxis], rtol=1e-9)
