from typing import Any

import numpy as np

from service.model.recursion.lengths import Lengths, lengths_of, rank_steps_needed
from service.model.recursion.memory import memory_of
from service.model.recursion.pattern import Pattern
from tests.model.fleets_for_tests import one_fleet
from tests.model.recursion.simulations import rounds, stale


def lengths(num_gpus: int, pattern: Pattern, draws: int = 1000, **given: Any) -> Lengths:
    fleet = one_fleet([(num_gpus, 1)], **given or {"transient": ("normal", 0.3)})
    return lengths_of(fleet, pattern, memory_of(fleet, pattern), np.array([draws]), np.ones(1))


def first(found: Lengths) -> list[int]:
    return [int(column[0]) for column in found]


def test_sixty_four_steps_a_draw_in_sixteen_replications() -> None:
    assert first(lengths(64, stale(1))) == [2, 32, 4000]
    # More replications of few ranks, fewer steps of many.
    assert first(lengths(8, stale(1)))[0] == 16
    assert first(lengths(8, stale(1)))[2] == 4000
    assert first(lengths(4096, stale(1)))[2] == 1000
    assert first(lengths(40_000, stale(1)))[0] == 1


def test_as_long_as_the_memory_asks() -> None:
    fleet = one_fleet([(64, 1)], transient=("normal", 0.05))
    memory = float(memory_of(fleet, stale(4)).num_steps[0])
    lanes, burnt, measured = first(lengths(8, stale(4), 16, transient=("normal", 0.05)))
    assert lanes == 2
    assert burnt >= 3 * memory
    assert measured >= 8 * memory
    assert burnt % 5 == measured % 5 == 0


def test_clusters_that_differ() -> None:
    lasting = {"transient": ("normal", 0.05), "persistent": ("normal", 0.05)}
    assert first(lengths(64, stale(1), 1000, **lasting))[0] == 16
    assert first(lengths(64, stale(1), 100, **lasting))[0] == 8
    assert first(lengths(32_768, stale(1), 100, **lasting))[0] == 2


def test_blocking_rounds_are_whole_and_burn_one() -> None:
    _, burnt, measured = first(lengths(64, rounds(300)))
    assert burnt == 300
    assert measured == 4200
    _, burnt, measured = first(lengths(64, rounds(60, overlap_steps=5, fragments=2)))
    assert burnt % 30 == measured % 30 == 0
    assert burnt > 30


def test_steps_needed_grow_with_states_of_episodes() -> None:
    given: dict[str, Any] = {"transient": ("normal", 0.3)}
    plain = rank_steps_needed(one_fleet([(16, 1)], **given), stale(1), np.array([100]))
    fleet = one_fleet([(16, 1)], episodes=(0.1, 2.0), **given)
    with_episodes = rank_steps_needed(fleet, stale(1), np.array([100]))
    # 64 replications of 34 steps burnt and 400 measured.
    assert plain[0] == 16 * 64 * (34 + 400)
    # Up to 10 of 16 GPUs in an episode: each state burns in and measures at least 256 steps.
    assert with_episodes[0] == 11 * 1000 * (34 + 256)


def test_few_ranks_count_as_a_thousand() -> None:
    fleet = one_fleet([(1, 1)], transient=("normal", 0.3))
    found = lengths(1, stale(1), draws=16)
    assert first(found)[0] == 16
    needed = rank_steps_needed(fleet, stale(1), np.array([16]))
    assert needed[0] == 1000 * (first(found)[1] + first(found)[2])
