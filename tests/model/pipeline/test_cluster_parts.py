"""Clusters with some of their sources alone."""

from typing import Any

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import (
    alike_part,
    episodes_part,
    fleeting_part,
    lasting_part,
)
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.rounds import rounds_of
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.piped_fleets import cluster_of

EVERYTHING: dict[str, Any] = {
    "slow": [(1, 1.5, RANDOM), (1, 1.3, 2)],
    "persistent": ("normal", 0.1),
    "node": ("normal", 0.1),
    "transient": ("normal", 0.1),
    "replica": ("normal", 0.1),
    "common": ("normal", 0.1),
    "spikes": (0.1, 1.5),
    "episodes": (0.1, 1.5),
    "jitter": ("normal", 0.1),
    "round_steps": 3,
}
LASTING = {"persistent", "node"}
FLEETING = {"transient", "replica", "common", "spikes"}


def _sources(cluster: OneCluster) -> set[str]:
    names = LASTING | FLEETING | {"episodes"}
    return {name for name in names if getattr(cluster.fleet, name) is not None}


def _step(cluster: OneCluster) -> Floats:
    return rounds_of(cluster, 3, 2).step


def test_lasting_part() -> None:
    found = lasting_part(cluster_of(**EVERYTHING))
    assert _sources(found) == LASTING
    assert found.shape.jitter is None
    assert found.shape.round_steps.tolist() == [1]
    lasting = {name: EVERYTHING[name] for name in ("slow", *LASTING)}
    np.testing.assert_array_equal(_step(found), _step(cluster_of(**lasting)))


def test_fleeting_part() -> None:
    found = fleeting_part(cluster_of(**EVERYTHING))
    assert _sources(found) == FLEETING
    assert found.shape.jitter is not None
    names = (*FLEETING, "jitter", "round_steps")
    fleeting = {name: EVERYTHING[name] for name in names}
    np.testing.assert_array_equal(_step(found), _step(cluster_of([(1, 1.3, 2)], **fleeting)))


def test_alike_part() -> None:
    found = alike_part(cluster_of(**EVERYTHING))
    assert _sources(found) == {*FLEETING, "episodes"}
    assert found.shape.jitter is not None
    assert [group.factor for group in found.slow_groups] == [1.3]


def test_episodes_part() -> None:
    found = episodes_part(cluster_of(**EVERYTHING))
    assert _sources(found) == {"episodes"}
    assert [group.factor for group in found.slow_groups] == [1.3]
    expected = _step(cluster_of([(1, 1.3, 2)], episodes=(0.1, 1.5)))
    np.testing.assert_array_equal(_step(found), expected)


def test_worst_places_stay() -> None:
    found = fleeting_part(cluster_of([(1, 1.5, -2)], transient=("normal", 0.1)))
    assert [group.factor for group in found.slow_groups] == [1.5]
