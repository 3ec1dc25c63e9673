from dataclasses import replace

import numpy as np
import pytest

from service.model.recursion.memory import memory_of
from service.model.recursion.pattern import Rounds
from tests.model.fleets_for_tests import one_fleet
from tests.model.recursion.simulations import rounds, stale


def test_published_memory() -> None:
    # numerics.md 6 (E): N 1024, cv .05, s 16.
    memory = memory_of(one_fleet([(1024, 1)], transient=("normal", 0.05)), stale(16))
    assert memory.num_steps[0] == pytest.approx(29_500, rel=2e-3)
    assert memory.slack[0] == 16


def test_load_dilutes_and_delay_takes_from_the_slack() -> None:
    fleet = one_fleet([(7, 1), (1, 1.5)], transient=("normal", 0.1))
    memory = memory_of(fleet, stale(3, delay=4.0, load=0.5))
    assert memory.step[0] == 2.0
    assert memory.slowest[0] == 1.5
    assert memory.cv[0] == pytest.approx(0.1 * 1.5 / 2)
    assert memory.slack[0] == 1.0
    assert memory_of(fleet, stale(1, delay=4.0)).num_steps[0] == 0


def test_a_hidden_load_makes_the_step() -> None:
    pattern = replace(stale(3, delay=4.0), hidden_ratio=np.array([2.0]))
    memory = memory_of(one_fleet([(8, 1)], transient=("normal", 0.1)), pattern)
    assert memory.step[0] == 2.0
    assert memory.slack[0] == 1.0


def test_variance_of_all_that_is_drawn_each_step() -> None:
    fleet = one_fleet(
        [(8, 1)], transient=("normal", 0.1), replica=("normal", 0.2), spikes=(0.1, 2.0)
    )
    rng = np.random.default_rng(0)
    steps = (1 + 0.1 * rng.standard_normal(400_000)) * (1 + 0.2 * rng.standard_normal(400_000))
    steps *= 1 + (rng.uniform(size=400_000) < 0.1)
    memory = memory_of(fleet, stale(1))
    assert memory.cv[0] == pytest.approx(steps.std() / steps.mean(), rel=0.01)
    assert memory.slowest[0] == pytest.approx(1.1)


def test_autocorrelated_steps_add_up() -> None:
    fleet = one_fleet([(8, 1)], transient=("normal", 0.1))
    sticky = replace(fleet, autocorrelation=np.array([0.9]))
    memory = memory_of(sticky, stale(0))
    assert memory.cv[0] == pytest.approx(0.1 * 19**0.5)
    assert memory.num_steps[0] == pytest.approx(10)


def test_jump_of_seldom_steps() -> None:
    fleet = one_fleet([(8, 1)], transient=("normal", 0.1))
    assert memory_of(fleet, stale(1)).jump[0] == pytest.approx(0.3719, rel=1e-4)
    fleet = one_fleet([(8, 1)], transient=("normal", 0.1), spikes=(0.1, 2.0))
    assert memory_of(fleet, stale(1, load=1.1)).jump[0] == pytest.approx((2 / 1.1 - 1) / 2)


def test_groups_vary_less() -> None:
    fleet = one_fleet([(64, 1)], transient=("normal", 0.1), tensor_parallel_size=8)
    rng = np.random.default_rng(0)
    slowest = rng.standard_normal((100_000, 8)).max(axis=1)
    assert memory_of(fleet, stale(1)).cv[0] == pytest.approx(0.1 * slowest.std(), rel=0.03)


def test_rounds() -> None:
    fleet = one_fleet([(8, 1)], transient=("normal", 0.1))
    given = rounds(12, part=0.75, fragments=3, overlap_steps=1, release_fraction=0.5)
    memory = memory_of(fleet, given)
    assert memory.slack[0] == 0.75
    assert memory.period[0] == memory.gate[0] == 4
    bucketed = Rounds(
        **{name: getattr(given, name) for name in given.__dataclass_fields__}
        | {"release_shares": np.ones((2, 1)), "bucket_ratios": np.full((2, 1), 0.5)}
    )
    # The last of two buckets of half a step is ready when the step is done.
    assert memory_of(fleet, bucketed).slack[0] == 0
    assert not bucketed.is_blocking[0]
    assert not rounds(2, release_fraction=0.5).is_blocking[0]
    assert rounds(2).is_blocking[0]


def test_what_does_not_vary_is_not_remembered() -> None:
    assert memory_of(one_fleet([(8, 1)], common=("normal", 0.1)), stale(5)).num_steps[0] == 0
    assert memory_of(one_fleet([(1, 1)], transient=("normal", 0.1)), stale(5)).num_steps[0] == 0
