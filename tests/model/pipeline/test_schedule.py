import time

import numpy as np
import pytest

from service.model.pipeline import SCHEDULES
from service.model.pipeline.schedule import Sizes
from tests.model.pipeline.pipeline_sizes import NAMES, SPLIT, is_valid, valid_sizes


def test_registry_has_the_schedules_of_the_issue_in_its_order() -> None:
    order = (
        "naive gpipe 1f1b interleaved_1f1b looped_bfs zb1p zb_h1 zb_h2 zbv interleaved_zb1p "
        "dualpipe dualpipev"
    )
    assert list(SCHEDULES) == order.split()
    assert all(name == schedule.name for name, schedule in SCHEDULES.items())
    assert {name for name, schedule in SCHEDULES.items() if schedule.splits_backward} == set(SPLIT)


@pytest.mark.parametrize("name", NAMES)
def test_valid_sizes_are_those_of_the_rules(name: str) -> None:
    for stages in range(1, 9):
        for microbatches in range(1, 21):
            for chunks in range(1, 5):
                sizes = stages, microbatches, chunks
                assert SCHEDULES[name].is_valid(*sizes) == is_valid(name, *sizes), sizes
    assert not SCHEDULES[name].is_valid(0, 4, 1)
    assert not SCHEDULES[name].is_valid(4, 0, 2)


@pytest.mark.parametrize("name", NAMES)
def test_nearest_sizes_are_the_valid_ones_next_to_those_given(name: str) -> None:
    for stages in range(1, 9):
        for microbatches in range(1, 41):
            for chunks in range(1, 5):
                found = SCHEDULES[name].nearest(stages, microbatches, chunks)
                assert found
                for size in found:
                    assert is_valid(name, *size)
                    numbers = [
                        number
                        for number in range(1, 81)
                        if is_valid(name, size.stages, number, size.chunks)
                    ]
                    below = [number for number in numbers if number <= microbatches]
                    above = [number for number in numbers if number >= microbatches]
                    assert size.microbatches in {*below[-1:], *above[:1]}
                    same = [one for one in found if one.stages == size.stages]
                    assert len(same) == len({*below[-1:], *above[:1]})


def test_nearest_numbers_of_stages_and_chunks() -> None:
    assert SCHEDULES["dualpipe"].nearest(3, 7, 2) == (
        Sizes(2, 6, 1),
        Sizes(2, 8, 1),
        Sizes(4, 8, 1),
    )
    assert SCHEDULES["dualpipe"].nearest(1, 4, 1) == (Sizes(2, 4, 1),)
    assert SCHEDULES["interleaved_1f1b"].nearest(4, 9, 1) == (Sizes(4, 8, 2), Sizes(4, 10, 2))
    assert SCHEDULES["zbv"].nearest(4, 9, 3) == (Sizes(4, 9, 2),)
    assert SCHEDULES["naive"].nearest(4, 9, 1) == (Sizes(4, 1, 1),)
    assert SCHEDULES["looped_bfs"].nearest(4, 9, 7) == (Sizes(4, 9, 7),)
    assert SCHEDULES["gpipe"].nearest(-4, 1, 1) == ()


@pytest.mark.parametrize("name", NAMES)
def test_nearest_sizes_of_huge_ones_are_found_at_once(name: str) -> None:
    start = time.process_time()
    for sizes in ((10**7, 10**9, 3), (10**7 + 1, 3, 3), (1, 10**9, 1), (30_001, 10**9 + 7, 2)):
        assert SCHEDULES[name].nearest(*sizes)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("name", NAMES)
def test_every_rank_does_everything_that_it_has_to_do_once(name: str) -> None:
    schedule = SCHEDULES[name]
    for stages, microbatches, chunks in valid_sizes(name, 6, 14, 3):
        parts = schedule.num_parts(stages, chunks)
        forwards = np.zeros((parts, microbatches), dtype=int)
        backwards, weights = forwards.copy(), forwards.copy()
        for rank, order in enumerate(schedule.order(stages, microbatches, chunks)):
            seen: list[tuple[str, int, int]] = []
            parts_of = [
                schedule.part_of(np.full(len(order), rank), order[:, column], stages).tolist()
                for column in (1, 3)
            ]
            for row, part, partner in zip(order.tolist(), *parts_of, strict=True):
                kind, microbatch = row[0], row[2]
                back, back_microbatch = (partner, row[4]) if kind == 4 else (part, microbatch)
                if kind in {0, 4}:
                    forwards[part, microbatch] += 1
                    seen.append(("forward", part, microbatch))
                if kind in {1, 2, 4}:
                    backwards[back, back_microbatch] += 1
                    assert ("forward", back, back_microbatch) in seen
                    seen.append(("backward", back, back_microbatch))
                if kind in {1, 3, 4}:
                    weights[back, back_microbatch] += 1
                    assert ("backward", back, back_microbatch) in seen
        for done in (forwards, backwards, weights):
            assert (done == 1).all(), (stages, microbatches, chunks)


def test_sizes_are_said_in_words() -> None:
    assert Sizes(4, 16, 2).said() == "4 stages, 16 micro-batches, 2 chunks"
    assert Sizes(1, 1, 1).said(" x ") == "1 stage x 1 micro-batch x 1 chunk"
