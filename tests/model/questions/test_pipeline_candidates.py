"""What a search tries."""

from fractions import Fraction
from typing import Any

import pytest

from service.model.pipeline import SCHEDULES
from service.model.questions.pipeline_candidates import Space, candidates_of
from tests.model.piped_scenarios import STEP, piped, put


def tried(space: Space, pipeline: dict[str, Any] | None = None, **changes: Any) -> list[Any]:
    scenario = piped(pipeline, **changes)
    return [
        (each.schedule, each.stages, each.microbatches, each.chunks)
        for each in candidates_of(scenario, space)
    ]


def test_stages_by_default_leave_whole_replicas() -> None:
    stages = {each[1] for each in tried(Space(), {"stages": 12, "microbatches": 24}, num_gpus=96)}
    assert stages == {1, 2, 4, 8, 16, 32, 12}
    in_groups = tried(Space(), tensor_parallel_size=4)
    assert {each[1] for each in in_groups} == {1, 2, 4, 8, 16}
    evicted = tried(Space(), {"stages": 4}, num_evicted_gpus=16)
    assert {each[1] for each in evicted} == {1, 2, 4, 8, 16}


def test_all_schedules_with_the_chunks_that_they_take() -> None:
    found = tried(Space(stages=(4,)))
    assert {each[0] for each in found} == set(SCHEDULES)
    chunks = {name: [each[3] for each in found if each[0] == name] for name in SCHEDULES}
    assert chunks["1f1b"] == chunks["gpipe"] == chunks["zb1p"] == chunks["dualpipe"] == [1]
    assert chunks["zbv"] == chunks["dualpipev"] == [2]
    assert chunks["interleaved_1f1b"] == [2, 4]
    own = tried(Space(stages=(8,)), {"schedule": "interleaved_1f1b", "chunks_per_stage": 3})
    assert [each[3] for each in own if each[0] == "interleaved_1f1b"] == [2, 3, 4]


def test_one_stage_has_nothing_to_order() -> None:
    assert tried(Space(stages=(1,))) == [("1f1b", 1, 2, 1)]
    named = tried(Space(stages=(1,), schedules=("gpipe", "1f1b")))
    assert [each[0] for each in named] == ["gpipe", "1f1b"]


def test_micro_batches_keep_their_size_or_their_number_or_are_listed() -> None:
    only: dict[str, Any] = {"stages": (4, 8, 16, 6), "schedules": ("1f1b",)}
    sizes = [each[2] for each in tried(Space(**only), {"microbatches": 10})]
    assert sizes == [5, 10, 20, Fraction(15, 2)]
    counts = tried(Space(**only, keep="microbatches"), {"microbatches": 10})
    assert [each[2] for each in counts] == [10] * 4
    listed = tried(Space(stages=(4,), schedules=("1f1b",), microbatches=(3, 5, 3)))
    assert [each[2] for each in listed] == [3, 5]


def test_lists_are_multiplied_and_repeats_tried_once() -> None:
    space = Space(stages=(4, 4, 8), chunks=(1, 2, 2), schedules=("gpipe", "1f1b", "gpipe"))
    assert tried(space) == [
        (schedule, stages, 2 * stages, chunks)
        for stages in (4, 8)
        for schedule in ("gpipe", "1f1b")
        for chunks in (1, 2)
    ]


def test_a_scenario_without_a_pipeline_has_none() -> None:
    alone = put(piped(), {**STEP, "pipeline": None})
    with pytest.raises(ValueError, match="without a pipeline"):
        list(candidates_of(alone, Space()))
