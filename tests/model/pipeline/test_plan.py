import time
from dataclasses import replace

import numpy as np
import pytest

from service.model.pipeline import SCHEDULES
from service.model.pipeline.operations import operations
from service.model.pipeline.plan import Plan, compiled
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes


def test_a_small_plan_by_hand() -> None:
    """1F1B of two ranks and two micro-batches: FF BB above FB FB."""
    plan = compiled(SCHEDULES["1f1b"], 2, 2, 1)
    assert plan.level_starts.tolist() == [0, 1, 3, 4, 6, 7, 8]
    assert plan.stage.tolist() == [0, 0, 1, 1, 0, 1, 1, 0]
    assert plan.kind.tolist() == [0, 0, 0, 1, 1, 0, 1, 1]
    assert plan.microbatch.tolist() == [0, 1, 0, 0, 0, 1, 1, 1]
    assert plan.previous.tolist() == [-1, 0, -1, 2, 1, 3, 5, 4]
    assert plan.upstream.tolist() == [-1, -1, 0, -1, 3, 1, -1, 6]
    assert (plan.second_upstream == -1).all()
    assert (plan.model_stage == plan.stage).all()
    assert (plan.partner_model_stage == -1).all()
    assert (plan.num_operations, plan.num_levels) == (8, 6)


def test_pairs_wait_for_two_inputs_and_directions_mirror_the_model() -> None:
    plan = compiled(SCHEDULES["dualpipe"], 4, 8, 1)
    pairs = plan.kind == 4
    assert pairs.any()
    assert (plan.partner_model_stage[pairs] == 3 - plan.model_stage[pairs]).all()
    assert (plan.partner_chunk[pairs] == 1 - plan.chunk[pairs]).all()
    assert (plan.model_stage == np.where(plan.chunk == 0, plan.stage, 3 - plan.stage)).all()
    assert (plan.microbatch >= 4).tolist() == (plan.chunk == 1).tolist()
    both = plan.second_upstream >= 0
    assert both.any()
    assert pairs[both].all()


@pytest.mark.parametrize("name", NAMES)
def test_levels_follow_their_inputs_and_no_valid_size_waits_for_ever(name: str) -> None:
    for sizes in valid_sizes(name, 8, 20, 4):
        plan = compiled(SCHEDULES[name], *sizes)
        level = np.repeat(np.arange(plan.num_levels), np.diff(plan.level_starts))
        place = level * plan.stages + plan.stage
        assert (np.diff(place) > 0).all()
        latest = np.full(plan.num_operations, -1)
        for source in (plan.previous, plan.upstream, plan.second_upstream):
            latest = np.maximum(latest, np.where(source < 0, -1, level[source]))
        assert (level == latest + 1).all(), sizes
        for source in (plan.upstream, plan.second_upstream):
            assert (plan.stage[source] != plan.stage)[source >= 0].all()
        assert (plan.stage[plan.previous] == plan.stage)[plan.previous >= 0].all()
        assert (plan.previous < 0).sum() == plan.stages


def test_ranks_that_would_wait_for_ever_are_an_error() -> None:
    """Rank 0 waits for a backward before it has sent the micro-batch that rank 1 wants first."""
    forward, backward = operations(0, 0, [0, 1]), operations(1, 0, [0, 1])
    first = np.concatenate([forward[:1], backward[:1], forward[1:], backward[1:]])
    last = np.concatenate([forward[::-1], backward])
    stuck = replace(SCHEDULES["gpipe"], order=lambda *_: (first, last))
    with pytest.raises(RuntimeError, match="wait for each other for ever"):
        compiled(stuck, 2, 2, 1)


def test_a_large_plan_is_compiled_well_within_a_second() -> None:
    def seconds() -> tuple[float, Plan]:
        start = time.process_time()
        plan = compiled(SCHEDULES["interleaved_1f1b"], 64, 512, 2)
        return time.process_time() - start, plan

    spent, plan = min((seconds() for _ in range(2)), key=lambda run: run[0])
    assert plan.num_operations == 2 * 64 * 512 * 2
    assert spent < 1
