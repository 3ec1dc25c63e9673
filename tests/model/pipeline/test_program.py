"""The program read as text: every operation once, every input in its place when it is read."""

from itertools import pairwise

import numpy as np
import pytest

from service.model.pipeline import SCHEDULES
from service.model.pipeline.plan import compiled
from service.model.pipeline.program import program_of
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes


@pytest.mark.parametrize("name", NAMES)
def test_levels_read_the_messages_of_their_inputs(name: str) -> None:
    """With operations in the tables in place of times: each reads those it waits for."""
    for sizes in list(valid_sizes(name, 6, 13, 3))[::5]:
        plan = compiled(SCHEDULES[name], *sizes)
        program = program_of(plan)
        no_time = len(program.base_times.kind)
        message = np.full(program.num_messages, -1)
        ends = np.full(plan.stages, -1)
        bounds = pairwise(plan.level_starts.tolist())
        for level, span in zip(program.levels, bounds, strict=True):
            here = np.arange(*span)
            ranks = plan.stage[here]
            inputs: list[set[int]] = [set() for _ in range(plan.stages)]
            if level.waiting is not None:
                waiting, sent = (range(*span) for span in level.waiting)
                for rank, row in zip(waiting, sent, strict=True):
                    inputs[rank].add(int(message[row]))
            for rows in level.gathered:
                for rank, row in zip(range(*level.ranks), rows, strict=True):
                    inputs[rank].add(int(message[row]))
            jitter = np.arange(plan.num_operations)[level.jitter]
            assert np.array_equal(ends[ranks], plan.previous[here])
            for place, rank in zip(here, ranks, strict=True):
                wanted = {int(plan.upstream[place]), int(plan.second_upstream[place])} - {-1}
                assert inputs[rank] - {-1} == wanted
                assert jitter[rank - level.ranks[0]] == place
                inputs[rank] = set()
            assert all(given <= {-1} for given in inputs)
            times = program.time_rows[slice(*level.times)] if level.times else level.time_rows
            expected = np.full(level.ranks[1] - level.ranks[0], no_time)
            expected[ranks - level.ranks[0]] = program.base_times.row[here]
            assert np.array_equal(times, expected)
            ends[ranks] = here
            if level.sent is not None:
                message[slice(*level.sent)] = ends[slice(*level.ranks)]
        assert len(program.levels) == plan.num_levels


def test_a_program_is_made_once_and_goes_with_its_plan() -> None:
    plan = compiled(SCHEDULES["1f1b"], 4, 8, 1)
    program = program_of(plan)
    assert program_of(plan) is program
    another = compiled(SCHEDULES["1f1b"], 4, 8, 1)
    assert program_of(another) is not program
