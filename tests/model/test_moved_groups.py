"""Slow GPUs go with their layers: every placement is held against the room and the layers."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.fields import SlowGroup
from service.model.moved_groups import moved_groups
from service.model.questions.pipeline_candidates import Space
from service.model.questions.pipeline_found import Bounds
from service.model.questions.pipeline_search import search
from service.model.rules import failures
from service.model.same_job import PipelineSizes, same_job
from tests.model.piped_scenarios import piped, put

SIZES = (1, 2, 3, 4, 6, 8, 12, 24)
NUM_GPUS = 24


def slow(count: int, placement: Any, speed: float = 0.7) -> SlowGroup:
    return SlowGroup(count=count, speed_fraction=speed, placement=placement)


def counts(groups: list[SlowGroup], stages: int, after: int) -> dict[int, int]:
    """Slow GPUs at each stage that has any."""
    found: dict[int, int] = {}
    for group in moved_groups(groups, stages, after) or []:
        found[group["placement"]] = found.get(group["placement"], 0) + group["count"]
    return found


def test_a_slow_stage_that_becomes_two_makes_both_slow() -> None:
    base = piped(
        {"stages": 4, "microbatches": 8},
        num_gpus=32,
        slow_groups=[{"count": 8, "speed_fraction": 0.7, "placement": 1}],
    )
    there = put(base, same_job(base, PipelineSizes("1f1b", 8, 16, 1)))
    assert there.slow_groups == (slow(4, 2), slow(4, 3))
    found = search(base, Space(stages=(8,), schedules=("1f1b",), chunks=(1,)), Bounds())
    assert [sized.sizes.stages for sized in found.ranked] == [8]
    assert found.left_out == ()


@pytest.mark.parametrize(("stages", "after"), list(product(SIZES, SIZES)))
def test_each_new_stage_has_its_share_of_every_old_one(stages: int, after: int) -> None:
    """GPU by GPU: N pieces of the model, of which each stage has as many, one behind the other."""
    if stages == after:
        assert moved_groups([slow(1, 0)], stages, after) is None
        return
    of_old = np.arange(NUM_GPUS) * stages // NUM_GPUS
    of_new = np.arange(NUM_GPUS) * after // NUM_GPUS
    for count in range(1, NUM_GPUS // stages + 1):
        for stage in range(stages):
            found = counts([slow(count, stage)], stages, after)
            assert sum(found.values()) == count
            for new in range(after):
                share = count * np.mean(of_new[of_old == stage] == new)
                assert abs(found.get(new, 0) - share) < 1


@pytest.mark.parametrize("seed", range(40))
def test_there_is_always_room(seed: int) -> None:
    """Up to all GPUs of all stages, in groups of any size; nothing is lost on the way."""
    generator = np.random.default_rng(seed)
    stages, after = generator.choice(SIZES, 2, replace=False).tolist()
    room = NUM_GPUS // stages
    groups = [slow(3, "random", 0.5)]
    for stage in range(stages):
        parts = generator.multinomial(room, [0.3, 0.2, 0.2, 0.3])
        speeds = (0.9, 0.8, 0.6)
        groups += [
            slow(int(part), stage, speed)
            for part, speed in zip(parts, speeds, strict=False)
            if part
        ]
    found = moved_groups(groups, stages, after)
    assert found is not None
    assert found[0] == {"count": 3, "speed_fraction": 0.5, "placement": "random"}
    held = [0] * after
    for group in found[1:]:
        held[group["placement"]] += group["count"]
    assert max(held) <= NUM_GPUS // after
    for speed in (0.9, 0.8, 0.6):
        before = sum(group.count for group in groups if group.speed_fraction == speed)
        assert before == sum(each["count"] for each in found if each["speed_fraction"] == speed)


def test_groups_of_one_stage_are_even_together_and_joined_where_they_are_alike() -> None:
    ones = [slow(1, 1), slow(1, 1), slow(1, 1, 0.8), slow(1, 1, 0.8)]
    assert counts(ones, 4, 8) == {2: 2, 3: 2}
    shrunk = moved_groups([slow(4, 0), slow(2, 1), slow(1, 1, 0.8), slow(2, "worst")], 4, 2)
    assert shrunk == [
        {"count": 6, "speed_fraction": 0.7, "placement": 0},
        {"count": 1, "speed_fraction": 0.8, "placement": 0},
        {"count": 2, "speed_fraction": 0.7, "placement": "worst"},
    ]


@pytest.mark.parametrize(("stages", "stage"), [(4, 2), (16, 11), (2, 1), (24, 16)])
def test_one_slow_gpu_goes_to_the_middle_of_its_share(stages: int, stage: int) -> None:
    assert counts([slow(1, 5)], 8, stages) == {stage: 1}


def test_without_a_stage_nothing_moves() -> None:
    assert moved_groups([slow(2, "random"), slow(1, "worst")], 4, 8) is None
    assert moved_groups([], 4, 8) is None


def test_all_stages_full_of_slow_gpus_stay_valid_at_every_size() -> None:
    """With tensor-parallel groups, several speeds at a stage, by the rules of scenarios."""
    groups = [
        {"count": count, "speed_fraction": speed, "placement": stage}
        for stage in range(4)
        for count, speed in ((5, 0.7), (3, 0.8))
    ]
    base = piped(
        {"stages": 4, "microbatches": 8}, num_gpus=32, tensor_parallel_size=2, slow_groups=groups
    )
    for stages in (1, 2, 8):
        there = put(base, same_job(base, PipelineSizes("gpipe", stages, 2 * stages, 1)))
        assert failures(columns_of(there)).tolist() == [0]
