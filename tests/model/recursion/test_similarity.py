from dataclasses import replace

import numpy as np
import pytest

from service.model.recursion import similarity
from service.model.recursion.group_means import group_means
from service.model.recursion.pattern import Pattern
from service.model.recursion.similarity import similar
from tests.model.fleets_for_tests import one_fleet
from tests.model.recursion.simulations import rounds, simulated, stale

NORMAL = ("normal", 0.05)


def test_short_memories_are_simulated_as_they_are() -> None:
    assert not similar(one_fleet([(8, 1)], transient=NORMAL), stale(1)).applies[0]
    assert not similar(one_fleet([(8, 1)], common=NORMAL), stale(100)).applies[0]


def test_long_memories_are_exchanged() -> None:
    found = similar(one_fleet([(8, 1)], transient=NORMAL), stale(10))
    assert found.applies[0]
    assert found.pattern.staleness[0] == 1
    assert found.noise[0] == pytest.approx(1)
    overshoot = 0.5826 * 0.05
    assert found.excess[0] == pytest.approx((10 + overshoot) / (1 + overshoot))
    assert found.memory.num_steps[0] == pytest.approx(800 / np.log(8))
    # Little noise is made larger, for the slack cannot be below a step.
    quiet = similar(one_fleet([(8, 1)], transient=("normal", 0.005)), stale(1))
    assert quiet.noise[0] == pytest.approx(10)
    assert quiet.excess[0] == pytest.approx(100 * (1 + overshoot / 10) / (1 + overshoot), rel=1e-9)


def test_where_the_slowest_rank_has_no_known_rate_nothing_is_exchanged() -> None:
    fleet = one_fleet([(8, 1)], transient=NORMAL)
    hidden = replace(stale(10), hidden_ratio=np.array([0.5]))
    assert not similar(fleet, hidden).applies[0]
    assert similar(fleet, replace(hidden, hidden_ratio=np.zeros(1))).applies[0]
    groups = one_fleet([(8, 1)], transient=NORMAL, tensor_parallel_size=2)
    assert similar(groups, stale(10)).applies[0]
    unequal = one_fleet([(7, 1), (1, 1.1)], transient=NORMAL, tensor_parallel_size=2)
    assert not similar(unequal, stale(10)).applies[0]
    lasting = one_fleet([(8, 1)], transient=NORMAL, node=NORMAL, tensor_parallel_size=2)
    assert not similar(lasting, stale(10)).applies[0]
    # Factors that remember each other for as long as the short memory.
    sticky = replace(fleet, autocorrelation=np.array([0.99]))
    assert not similar(sticky, stale(100)).applies[0]


def test_seldom_long_steps_must_be_short_against_the_slack() -> None:
    # Spikes of 10 steps: 0.0001 x 81 of variance, a cv of 0.09.
    fleet = one_fleet([(8, 1)], spikes=(1e-4, 10.0))
    assert not similar(fleet, stale(40)).applies[0]
    found = similar(fleet, stale(300))
    assert found.applies[0]
    assert found.pattern.staleness[0] == pytest.approx(4 * 9, rel=0.01)
    assert found.noise[0] == pytest.approx(1, rel=0.02)


def test_rounds_need_a_slack_beyond_what_a_round_wanders() -> None:
    fleet = one_fleet([(8, 1)], transient=NORMAL)
    assert similar(fleet, rounds(100, fragments=4, overlap_steps=5)).applies[0]
    assert not similar(fleet, rounds(10_000, overlap_steps=5)).applies[0]


@pytest.mark.parametrize(
    ("pattern", "given"),
    [
        (stale(2), {"transient": NORMAL}),
        (stale(3, delay=1.4), {"transient": ("lognormal", 0.05)}),
        (stale(1), {"transient": ("gamma", 0.03)}),
        (rounds(40, part=1.0, fragments=4, overlap_steps=3), {"transient": NORMAL}),
    ],
)
def test_excesses_agree_with_simulations_as_they_are(
    pattern: Pattern, given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = one_fleet([(16, 1)], **given)
    by_law = simulated(fleet, pattern, draws=1000)
    monkeypatch.setattr(similarity, "LONGER", 1e9)
    direct = simulated(fleet, pattern, seed=1, draws=1000)
    difference = by_law.mean[0] - direct.mean[0]
    assert abs(difference) < 4 * np.hypot(by_law.mean_se[0], direct.mean_se[0])
    assert by_law.mean[0] - 1 == pytest.approx(direct.mean[0] - 1, rel=0.15)


def test_groups_of_equal_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {"transient": NORMAL, "replica": ("gamma", 0.02)}
    fleet = one_fleet([(64, 1)], tensor_parallel_size=4, **given)
    # Of four GPUs the slowest is 1.03 standard deviations above the mean.
    own = float(group_means(fleet)[0])
    assert own == pytest.approx(1 + 0.05 * 1.02938, abs=1e-3)
    by_law = simulated(fleet, stale(2, load=0.1))
    monkeypatch.setattr(similarity, "LONGER", 1e9)
    direct = simulated(fleet, stale(2, load=0.1), seed=1)
    assert by_law.mean[0] - own - 0.1 == pytest.approx(direct.mean[0] - own - 0.1, rel=0.15)


def test_lasting_differences_are_stretched_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = one_fleet([(15, 1), (1, 1.001)], transient=NORMAL)
    by_law = simulated(fleet, stale(2))
    monkeypatch.setattr(similarity, "LONGER", 1e9)
    direct = simulated(fleet, stale(2), seed=1)
    assert by_law.mean[0] - 1.001 == pytest.approx(direct.mean[0] - 1.001, rel=0.2)
    assert by_law.mean[0] > 1.001
