"""Draws and replicas some at a time."""

import pytest

from service.model.pipeline.blocks_of_draws import blocks_of_lanes, blocks_of_replicas
from service.model.pipeline.random_numbers import LANE
from tests.model.pipeline.piped_fleets import cluster_of

MOST = 1 << 19


@pytest.mark.parametrize(
    ("replicas", "tensor", "steps", "lanes"),
    [(2, 1, 1, 9000), (100, 8, 1, 300), (20_000, 8, 1, 3), (50, 2, 300, 20), (1, 1, 200_000, 2)],
)
def test_all_of_them_once_and_not_too_many_at_a_time(
    replicas: int, tensor: int, steps: int, lanes: int
) -> None:
    cluster = cluster_of(replicas=replicas, tensor=tensor, round_steps=steps)
    blocks = list(blocks_of_lanes(cluster, lanes))
    assert [lane for block in blocks for lane in block] == list(range(lanes))
    for block in blocks[:2]:
        parts = list(blocks_of_replicas(cluster, block))
        assert [replica for part in parts for replica in part] == list(range(replicas))
        for part in parts:
            numbers = LANE * len(block) * len(part) * 3 * max(tensor, steps)
            # One replica in one lane is the least.
            assert numbers <= MOST or (len(block), len(part)) == (1, 1)
    if len(blocks) > 1 and len(blocks[0]) > 1:
        # Whole clusters while they fit.
        assert len(list(blocks_of_replicas(cluster, blocks[0]))) == 1
