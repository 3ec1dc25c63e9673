"""The replica that a step waits for, with and without bounds."""

import numpy as np
import pytest
from numpy.typing import NDArray

from service.model.laws.law import Floats
from service.model.pipeline.makespan_bounds import MakespanBounds
from service.model.pipeline.slowest_replicas import SlowestReplicas
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans


@pytest.mark.parametrize("num_backup", [0, 1, 3])
@pytest.mark.parametrize("cv", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("steps", [1, 3])
def test_as_if_all_were_worked_out(num_backup: int, cv: float, steps: int) -> None:
    cluster = cluster_of(num_backup=num_backup, stages=4, replicas=40)
    rng = np.random.default_rng(0)
    factor = rng.lognormal(0, cv, (steps, 40, 4, 16)) * np.where(
        rng.random((steps, 40, 4, 16)) < 0.05, 1.4, 1.0
    )
    lanes = factor.transpose(2, 0, 1, 3).reshape(4, 1, 1, -1)
    means = event_makespans(cluster, lanes).reshape(steps, 40, 16).mean(axis=0)
    expected = np.sort(means, axis=0)[-1 - num_backup :]
    slowest = SlowestReplicas(cluster, MakespanBounds(cluster), 16)
    for first in range(0, 40, 13):
        slowest.add(factor[:, first : first + 13])
    np.testing.assert_allclose(slowest.longest[0], expected[0], rtol=2e-12)
    given = SlowestReplicas(cluster, MakespanBounds(cluster), 16)
    given.add_means(means[:20])
    given.add_means(means[20:])
    np.testing.assert_allclose(given.longest, expected, rtol=1e-12)


def test_most_replicas_need_no_makespan() -> None:
    cluster = cluster_of(stages=4, microbatches=16, replicas=200)
    counted: list[int] = []

    class Counted(SlowestReplicas):
        def _means(
            self, factor: Floats, replica: NDArray[np.intp], draw: NDArray[np.intp]
        ) -> Floats:
            counted.append(len(draw))
            return super()._means(factor, replica, draw)

    factor = np.random.default_rng(0).normal(1, 0.02, (1, 200, 4, 50))
    Counted(cluster, MakespanBounds(cluster), 50).add(factor)
    assert 0 < sum(counted) < 50 * 200 / 5
