"""Draws that are independent: operations of a pipeline are counted in its plan."""

from typing import Any

import pytest

from service.model.columns import columns_of
from service.model.pipeline.plans import plan_of
from service.model.rank_counts import independent_ranks, rank_count_columns
from tests.model.piped_scenarios import piped

JITTER = {"kind": "lognormal", "cv": 0.05}


def jittered(name: str, sizes: tuple[int, int, int], **changes: Any) -> Any:
    stages, microbatches, chunks = sizes
    pipeline = {
        "schedule": name,
        "stages": stages,
        "microbatches": microbatches,
        "chunks_per_stage": chunks,
        "per_op_jitter": JITTER,
    }
    return columns_of(piped(pipeline, **changes))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("naive", (4, 1, 1)),
        ("gpipe", (4, 3, 1)),
        ("1f1b", (4, 8, 1)),
        ("interleaved_1f1b", (4, 8, 2)),
        ("looped_bfs", (4, 5, 3)),
        ("zb1p", (4, 8, 1)),
        ("zb_h1", (4, 8, 1)),
        ("zb_h2", (8, 16, 1)),
        ("zbv", (4, 8, 2)),
        ("interleaved_zb1p", (4, 8, 2)),
        ("dualpipe", (2, 4, 1)),
        ("dualpipe", (4, 8, 1)),
        ("dualpipe", (8, 30, 1)),
        ("dualpipe", (16, 32, 1)),
        ("dualpipev", (2, 4, 2)),
        ("dualpipev", (4, 9, 2)),
        ("dualpipev", (8, 31, 2)),
    ],
)
def test_each_operation_of_a_gpu_is_drawn_by_itself(name: str, sizes: tuple[int, int, int]) -> None:
    operations = plan_of(name, *sizes).num_operations
    replicas, tensor_size = 3, 2
    gpus = replicas * tensor_size * sizes[0]
    columns = jittered(name, sizes, num_gpus=gpus, tensor_parallel_size=tensor_size)
    expected = replicas * tensor_size * operations
    assert independent_ranks(columns)["per_op_jitter"].tolist() == [expected]
    assert rank_count_columns(columns)["num_independent_ranks"].tolist() == [expected]


def test_a_split_backward_is_two_operations() -> None:
    found = rank_count_columns(jittered("zb1p", (4, 8, 1), num_gpus=8))
    assert found["num_independent_ranks"].tolist() == [192]


def test_without_a_pipeline_nothing_has_operations() -> None:
    columns = columns_of(piped(num_gpus=8))
    assert str(independent_ranks(columns)["per_op_jitter"].tolist()) == "[nan]"
    assert rank_count_columns(columns)["num_independent_ranks"].tolist() == [8]
