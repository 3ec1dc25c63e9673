"""What is known exactly of clusters that have to be simulated."""

from typing import Any

import pytest

from service.model.pipeline.known_parts import known_parts
from service.model.pipeline.shape import RANDOM
from tests.model.pipeline.piped_fleets import cluster_of

MUCH: dict[str, Any] = {
    "transient": ("normal", 0.1),
    "persistent": ("normal", 0.1),
    "node": ("normal", 0.1),
    "replica": ("normal", 0.1),
    "common": ("normal", 0.1),
    "jitter": ("normal", 0.1),
}
SLOW = [(2, 1.3, RANDOM), (1, 1.5, 0)]


def test_slow_groups_and_spikes_together() -> None:
    (part,) = known_parts(cluster_of(SLOW, spikes=(0.1, 1.5), num_removed=1, **MUCH))
    assert part.fleet.spikes is not None
    assert part.fleet.transient is None
    assert not part.differs_lastingly
    assert part.shape.jitter is None
    # The slowest stands by.
    assert [group.factor for group in part.slow_groups] == [1.3]
    assert part.num_replicas == 2


def test_several_steps_have_no_known_spikes() -> None:
    (part,) = known_parts(cluster_of(SLOW, spikes=(0.1, 1.5), round_steps=2, **MUCH))
    assert part.fleet.spikes is None
    assert known_parts(cluster_of(spikes=(0.1, 1.5), round_steps=2, **MUCH)) == []


def test_episodes_with_placed_groups_only() -> None:
    (part,) = known_parts(cluster_of(SLOW, episodes=(0.1, 1.5), spikes=(0.1, 1.2), **MUCH))
    assert part.fleet.episodes is not None
    assert part.fleet.spikes is None
    assert [group.factor for group in part.slow_groups] == [1.5]


@pytest.mark.parametrize("name", ["spikes", "episodes"])
def test_one_by_one_where_together_there_are_too_many_states(name: str) -> None:
    # 2^11 states alone, but many more with slow groups.
    slow = [(30, 1.3, RANDOM), *((1, 1.1 + stage / 50, stage) for stage in range(11))]
    given: dict[str, Any] = {name: (0.1, 1.5), "stages": 11, "microbatches": 2, "replicas": 4}
    parts = known_parts(cluster_of(slow, **given, **MUCH))
    assert all(part.slow_groups == () for part in parts if getattr(part.fleet, name) is not None)
    assert any(getattr(part.fleet, name) is not None for part in parts)
    assert len(parts) == (2 if name == "spikes" else 1)


def test_nothing_is_known() -> None:
    assert known_parts(cluster_of([(1, 1.5, 0)], **MUCH)) == []
