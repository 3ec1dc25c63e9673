import numpy as np
import pytest

from service.model.columns import joined
from service.model.exchange.messages import (
    fills_nodes,
    message_bytes,
    num_ranks,
    ranks_per_node,
    smallest_share,
    uncompressed_bytes,
)
from tests.model.exchange.exchanges import LINK, by, point

BUCKETS = {"kind": "buckets"}


def test_a_message_is_given_or_follows_from_the_parameters() -> None:
    of_model = {"kind": "ring", "link": LINK, "parameters": 7e9, "bytes_per_parameter": 4}
    columns = joined(
        [
            point(by("ring", compression_ratio=4)),
            point(of_model),
            point({**of_model, "compression_ratio": 10}, tensor_parallel_size=4),
            point(),
        ]
    )
    expected = [0.25e9, 28e9, 28e9 / 4 / 10, np.nan]
    np.testing.assert_allclose(message_bytes(columns), expected)
    np.testing.assert_allclose(uncompressed_bytes(columns), [1e9, 28e9, 7e9, np.nan])


@pytest.mark.parametrize(
    ("fields", "ranks", "of_node", "whole"),
    [
        ({"num_gpus": 64}, 64, 8, True),
        ({"num_gpus": 4}, 4, 4, True),
        ({"num_gpus": 12}, 12, 8, False),
        ({"num_gpus": 64, "tensor_parallel_size": 4}, 16, 2, True),
        ({"num_gpus": 64, "tensor_parallel_size": 8}, 8, 1, True),
        ({"num_gpus": 64, "num_evicted_gpus": 1}, 63, 8, False),
        # A group that lost a GPU takes no part.
        ({"num_gpus": 64, "num_evicted_gpus": 1, "tensor_parallel_size": 4}, 15, 2, False),
        ({"num_gpus": 64, "num_spare_gpus": 5}, 64, 8, True),
    ],
)
def test_ranks_and_nodes(fields: dict[str, int], ranks: int, of_node: int, *, whole: bool) -> None:
    columns = point(by("ring"), **fields)
    assert num_ranks(columns) == ranks
    assert ranks_per_node(columns) == of_node
    assert fills_nodes(columns) == whole


@pytest.mark.parametrize(
    ("fields", "share"),
    [
        ({}, 1),
        ({"overlap": {**BUCKETS, "num_buckets": 25}}, 1 / 25),
        # 1e9 bytes: three of 3e8 and the rest of 1e8.
        ({"overlap": {**BUCKETS, "bucket_bytes": 3e8}}, 0.1),
        ({"overlap": {**BUCKETS, "bucket_bytes": 2.5e8}}, 0.25),
        ({"overlap": {**BUCKETS, "bucket_bytes": 2e9}}, 1),
        ({"overlap": {**BUCKETS, "bucket_shares": [4, 1, 3]}}, 1 / 8),
        ({"synchronization": {"kind": "local_steps", "steps": 100, "fragments": 20}}, 1 / 20),
    ],
)
def test_the_smallest_part_of_a_message(fields: dict[str, object], share: float) -> None:
    # Buckets are cut before compression.
    among_others = joined([point(), point(by("ring", compression_ratio=7), **fields), point()])
    np.testing.assert_allclose(smallest_share(among_others), [1, share, 1])


def test_a_message_of_no_bytes_is_one_bucket() -> None:
    nothing = {"kind": "ring", "link": LINK, "message_bytes": 0}
    bucket = point(nothing, overlap={**BUCKETS, "bucket_bytes": 2e9})
    assert smallest_share(bucket) == [1]
