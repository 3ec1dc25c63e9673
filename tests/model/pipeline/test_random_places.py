"""Random placements against the enumeration of all of them."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans

CASES: dict[str, dict[str, Any]] = {
    "two": {"slow": [(2, 1.5, RANDOM)]},
    "all stages": {"slow": [(4, 1.5, RANDOM)], "tensor": 2, "stages": 2},
    "every GPU": {"slow": [(6, 1.5, RANDOM)]},
    "two kinds": {"slow": [(2, 1.5, RANDOM), (1, 2.0, RANDOM)], "schedule": "gpipe"},
    "equal kinds": {"slow": [(1, 1.5, RANDOM), (1, 1.5, RANDOM), (1, 1.0, RANDOM)]},
    "three kinds": {"slow": [(1, 1.1, RANDOM), (1, 2.0, RANDOM), (2, 1.3, RANDOM)]},
    "backup": {"slow": [(3, 1.5, RANDOM)], "replicas": 4, "stages": 2, "num_backup": 1},
    "two backups": {"slow": [(3, 1.5, RANDOM)], "replicas": 3, "tensor": 2, "num_backup": 2},
    "beside placed ones": {
        "slow": [(2, 1.2, RANDOM), (3, 1.3, 1), (1, 1.6, RANDOM)],
        "replicas": 3,
        "stages": 2,
        "tensor": 2,
        "num_backup": 1,
    },
    "a full stage": {"slow": [(2, 1.4, RANDOM), (4, 1.2, 0)], "tensor": 2},
    "some are gone": {"slow": [(2, 1.2, RANDOM), (2, 1.6, RANDOM)], "num_removed": 1},
    "one stage": {"slow": [(2, 1.5, RANDOM)], "stages": 1, "replicas": 5},
}


def _placed(cluster: OneCluster, fixed: dict[int, float]) -> Iterator[Floats]:
    """Factors of all GPUs, for all placements."""
    groups = [group for group in cluster.slow_groups if group.placement == RANDOM]

    def further(place: int, factor: Floats, free: set[int]) -> Iterator[Floats]:
        if place == len(groups):
            yield factor
            return
        for chosen in combinations(sorted(free), groups[place].number):
            changed = factor.copy()
            changed[list(chosen)] = groups[place].factor
            yield from further(place + 1, changed, free - set(chosen))

    number = cluster.num_replicas * cluster.stages * cluster.tensor_size
    factor = np.ones(number)
    for gpu, value in fixed.items():
        factor[gpu] = value
    yield from further(0, factor, set(range(number)) - set(fixed))


def _fixed(cluster: OneCluster) -> dict[int, float]:
    """GPUs of groups on a stage, one such group in each case."""
    found = {}
    for group in cluster.slow_groups:
        if group.placement >= 0:
            for place in range(group.number):
                replica, tensor = divmod(place, cluster.tensor_size)
                stage = replica * cluster.stages + group.placement
                found[stage * cluster.tensor_size + tensor] = group.factor
    return found


@pytest.mark.parametrize("name", CASES)
def test_against_all_placements(name: str) -> None:
    cluster = cluster_of(**CASES[name])
    gpus = np.array(list(_placed(cluster, _fixed(cluster))))
    shape = (-1, cluster.stages, cluster.tensor_size)
    factor = gpus.reshape(shape).max(axis=2).T[:, np.newaxis, np.newaxis]
    makespan = event_makespans(cluster, factor).reshape(len(gpus), cluster.num_replicas)
    step = np.sort(makespan, axis=1)[:, -1 - cluster.num_backup]
    found = placements_of(cluster)
    assert found.step @ found.step_probability == pytest.approx(step.mean(), rel=1e-12)
    squares = found.step**2 @ found.step_probability
    assert squares == pytest.approx((step**2).mean(), rel=1e-12)
    for level in np.unique(step.round(9)).tolist():
        below = found.step_probability[found.step < level + 1e-9].sum()
        assert below == pytest.approx((step < level + 1e-9).mean(), abs=1e-12)
    assert found.probability.sum() == pytest.approx(1, rel=1e-12)
    assert found.makespan @ found.probability == pytest.approx(makespan.mean(), rel=1e-12)
    busy = found.factor @ found.probability
    np.testing.assert_allclose(busy, factor.mean(axis=(1, 2, 3)), rtol=1e-12)


def test_without_random_places_there_is_one_step() -> None:
    cluster = cluster_of([(1, 1.5, 1)], replicas=5)
    found = placements_of(cluster)
    factor = np.ones((3, 1, 1, 2))
    factor[1, 0, 0, 0] = 1.5
    slow, nominal = event_makespans(cluster, factor).tolist()
    assert found.step_probability @ found.step == pytest.approx(slow, rel=1e-12)
    assert found.probability @ found.makespan == pytest.approx((slow + 4 * nominal) / 5, rel=1e-12)


def test_many_gpus_against_drawn_placements() -> None:
    # 40 of 512: the angles do not tell all numbers of slow GPUs apart.
    cluster = cluster_of([(40, 1.3, RANDOM)], replicas=64, stages=4, tensor=2, num_backup=1)
    rng = np.random.default_rng(3)
    number = 4000
    slow = rng.random((number, 512)).argsort(axis=1) < 40
    stages = slow.reshape(-1, 4, 2).any(axis=2)
    factor = np.where(stages, 1.3, 1.0).T[:, np.newaxis, np.newaxis]
    makespan = event_makespans(cluster, factor).reshape(number, 64)
    step = np.sort(makespan, axis=1)[:, -2]
    found = placements_of(cluster)
    error = step.std() / number**0.5
    assert abs(found.step @ found.step_probability - step.mean()) < 4 * error
    rare = found.step_probability.sum()
    assert rare == pytest.approx(1, rel=1e-12)
    assert found.probability @ found.makespan == pytest.approx(makespan.mean(), rel=1e-3)


SPELLS: dict[str, dict[str, Any]] = {
    "spikes": {"spikes": (0.2, 1.5), "num_backup": 1},
    "episodes": {"episodes": (0.1, 1.2), "tensor": 2, "stages": 2, "slow": [(3, 1.3, 1)]},
    "slower than the placed": {"spikes": (0.3, 2.0), "tensor": 2, "slow": [(1, 1.5, 0)]},
    "on random places": {"spikes": (0.2, 1.4), "slow": [(2, 1.5, RANDOM), (1, 1.2, 1)]},
    "different ones placed": {
        "spikes": (0.2, 1.3),
        "tensor": 3,
        "stages": 2,
        "replicas": 1,
        "slow": [(2, 1.5, RANDOM), (1, 1.4, 0)],
    },
}


@pytest.mark.parametrize("name", SPELLS)
def test_against_all_spikes_or_episodes(name: str) -> None:
    cluster = cluster_of(**SPELLS[name])
    probability, slowness = SPELLS[name].get("spikes") or SPELLS[name]["episodes"]
    gpus = np.array(list(_placed(cluster, _fixed(cluster))))
    number = gpus.shape[1]
    hit = (np.arange(2**number)[:, np.newaxis] >> np.arange(number)) & 1
    weight = np.where(hit, probability, 1 - probability).prod(axis=1)
    every = gpus[:, np.newaxis] * np.where(hit, slowness, 1.0)
    shape = (-1, cluster.stages, cluster.tensor_size)
    factor = every.reshape(shape).max(axis=2).T[:, np.newaxis, np.newaxis]
    makespan = event_makespans(cluster, factor).reshape(len(gpus), 2**number, -1)
    step = np.sort(makespan, axis=2)[..., -1 - cluster.num_backup].mean(axis=0)
    found = placements_of(cluster)
    assert found.step @ found.step_probability == pytest.approx(weight @ step, rel=1e-12)
    of_one = makespan.mean(axis=(0, 2))
    assert found.makespan @ found.probability == pytest.approx(weight @ of_one, rel=1e-12)
