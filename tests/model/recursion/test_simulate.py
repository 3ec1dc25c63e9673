"""Simulated mean steps against exact ones, for every source of variability."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.model.distributions import Gamma, Normal
from service.model.fleet import Fleet
from service.model.laws.exponential import Exponential
from service.model.laws.source import Source
from service.model.recursion import simulate as module
from service.model.recursion.lengths import rank_steps_needed
from service.model.recursion.pattern import Staleness
from service.model.slowest.pooled import pooled_slowest
from tests.model.exchange.exchanges import oracle
from tests.model.fleets_for_tests import one_fleet
from tests.model.recursion.simulations import deviation, rounds, simulated, stale

# Every source, alone and with others.
BARRIERS: dict[str, tuple[list[tuple[float, float]], dict[str, Any]]] = {
    "transient": ([(16, 1)], {"transient": ("gamma", 0.2)}),
    "slow group": ([(12, 1), (4, 1.1)], {"transient": ("normal", 0.05)}),
    "persistent": ([(32, 1)], {"transient": ("lognormal", 0.05), "persistent": ("normal", 0.05)}),
    "node": (
        [(24, 1), (8, 1.04)],
        {"transient": ("normal", 0.04), "node": ("lognormal", 0.05), "gpus_per_node": 4},
    ),
    "replica": (
        [(30, 1), (2, 1.2)],
        {"transient": ("normal", 0.05), "replica": ("gamma", 0.1), "tensor_parallel_size": 4},
    ),
    "common": ([(8, 1)], {"transient": ("normal", 0.05), "common": ("lognormal", 0.1)}),
    "spikes": ([(16, 1)], {"transient": ("normal", 0.02), "spikes": (0.02, 1.5)}),
    "episodes": ([(16, 1)], {"transient": ("normal", 0.05), "episodes": (0.02, 1.3)}),
    "many episodes": (
        [(5, 1), (3, 1.1)],
        {"persistent": ("normal", 0.03), "spikes": (0.01, 1.2), "episodes": (0.4, 1.3)},
    ),
    "removed class": ([(14, 1), (3, 1.3)], {"transient": ("normal", 0.05), "num_removed": 3}),
}


@pytest.mark.parametrize("name", BARRIERS)
def test_without_staleness_every_step_is_a_barrier(name: str) -> None:
    classes, given = BARRIERS[name]
    fleet = one_fleet(classes, outside_ratio=0.2, **given)
    expected = 0.2 + float(pooled_slowest(fleet).mean[0])
    found = simulated(fleet, stale(0, load=0.2), draws=100)
    assert abs(deviation(found, expected)) < 4
    assert found.mean_se[0] < 0.01 * expected
    # A round of one step is a barrier too, on the same numbers.
    again = simulated(fleet, rounds(1, load=0.2), draws=100)
    assert abs(deviation(again, expected)) < 4


def test_an_exchange_is_added_to_blocking_rounds() -> None:
    fleet = one_fleet([(16, 1)], transient=("normal", 0.05))
    bare, loaded = (simulated(fleet, rounds(5, part=part), draws=64) for part in (0.0, 3.0))
    assert loaded.mean[0] - bare.mean[0] == pytest.approx(3 / 5, rel=1e-9)


def test_local_steps_of_the_oracle() -> None:
    for row in oracle("local_steps_mean_max_per_step"):
        inputs = row.inputs
        given: dict[str, Any] = {}
        if "cv_within" in inputs:
            # Its factors add up; ours multiply, equal where one of both is absent.
            if inputs["cv_persistent"] and inputs["cv_within"]:
                continue
            name = "persistent" if inputs["cv_persistent"] else "transient"
            given[name] = ("normal", inputs["cv_persistent"] or inputs["cv_within"])
        elif inputs["dist"] != "exponential":
            given["transient"] = (inputs["dist"].split()[-1], inputs["cv"])
        fleet = one_fleet([(inputs["N"], 1)], **given)
        if inputs["dist"] == "exponential":
            law = Source(law=Exponential, shape=np.array([[1.0], [0.0]]))
            fleet = replace(fleet, transient=law)
        fleet = replace(fleet, autocorrelation=np.array([inputs.get("phi", 0.0)]))
        found = simulated(fleet, rounds(inputs["H"]), draws=50)
        tolerance = float(row.tolerance)
        assert abs(found.mean[0] - row.expected) < 4 * found.mean_se[0] + tolerance, row


def test_persistent_factors_multiply_the_mean_of_the_steps() -> None:
    # model.md, section 6: N = 64, H = 10, .02 x .05.
    fleet = one_fleet([(64, 1)], persistent=("normal", 0.02), transient=("normal", 0.05))
    found = simulated(fleet, rounds(10), draws=2000)
    assert abs(deviation(found, 1.060479)) < 4
    assert found.mean_se[0] < 4e-4


def test_spares_take_the_place_of_the_slowest() -> None:
    given: dict[str, Any] = {"persistent": ("lognormal", 0.1), "transient": ("lognormal", 0.1)}
    fleet = one_fleet([(10, 1)], num_removed=2, **given)
    rng = np.random.default_rng(0)
    sd = np.log1p(0.01) ** 0.5
    lasting = np.sort(np.exp(rng.normal(-(sd**2) / 2, sd, (200_000, 10))), axis=1)[:, :8]
    steps = lasting * np.exp(rng.normal(-(sd**2) / 2, sd, lasting.shape))
    slowest = steps.max(axis=1)
    found = simulated(fleet, stale(0))
    assert abs(deviation(found, slowest.mean(), slowest.std() / 200_000**0.5)) < 4


def test_spares_where_nodes_differ() -> None:
    given: dict[str, Any] = {"node": ("lognormal", 0.1), "transient": ("lognormal", 0.1)}
    fleet = one_fleet([(8, 1)], num_removed=3, gpus_per_node=2, **given)
    rng = np.random.default_rng(2)
    sd = np.log1p(0.01) ** 0.5
    of_node = np.exp(rng.normal(-(sd**2) / 2, sd, (100_000, 4)))
    lasting = np.sort(np.repeat(of_node, 2, axis=1), axis=1)[:, :5]
    slowest = (lasting * np.exp(rng.normal(-(sd**2) / 2, sd, lasting.shape))).max(axis=1)
    found = simulated(fleet, stale(0))
    assert abs(deviation(found, slowest.mean(), slowest.std() / 100_000**0.5)) < 4


def test_many_ranks_take_few_replications() -> None:
    fleet = one_fleet([(17_000, 1)], transient=("normal", 0.05))
    found = simulated(fleet, stale(0), draws=16)
    expected = float(pooled_slowest(fleet).mean[0])
    assert abs(deviation(found, expected)) < 4
    assert found.mean_se[0] < 5e-4


def test_two_ranks_with_persistent_factors_against_a_plain_simulation() -> None:
    given: dict[str, Any] = {"persistent": ("lognormal", 0.1), "transient": ("lognormal", 0.2)}
    fleet = one_fleet([(2, 1)], **given)
    rng = np.random.default_rng(1)
    clusters, burnt, steps = 4000, 100, 400
    of_cluster, of_step = (np.log1p(cv * cv) ** 0.5 for cv in (0.1, 0.2))
    lasting = np.exp(rng.normal(-(of_cluster**2) / 2, of_cluster, (2, clusters)))
    ends = [np.zeros(clusters), np.zeros(clusters), np.zeros(clusters)]
    done = np.zeros((2, clusters))
    for step in range(burnt + steps):
        times = lasting * np.exp(rng.normal(-(of_step**2) / 2, of_step, (2, clusters)))
        done = np.maximum(done, ends[-3] + 0.5) + times
        ends.append(done.max(axis=0))
        if step + 1 == burnt:
            begun = ends[-1]
    means = (ends[-1] - begun) / steps
    found = simulated(fleet, stale(2, delay=0.5))
    assert abs(deviation(found, means.mean(), means.std() / clusters**0.5)) < 4
    # What is known exactly steadies it: 64 clusters would have left ten times as much.
    assert found.mean_se[0] < 0.3 * means.std() / 64**0.5


def test_lasting_states_are_weighed_by_time() -> None:
    # One GPU, half of the time twice as slow: 1 / (mean of 1/1 and 1/2).
    fleet = one_fleet([(1, 1)], transient=("normal", 0.1), episodes=(0.5, 2.0))
    found = simulated(fleet, stale(3))
    assert found.mean[0] == pytest.approx(1 / (0.5 + 0.25), rel=1e-9)
    assert found.mean_se[0] < 1e-9


def test_states_with_short_and_with_long_memories() -> None:
    given: dict[str, object] = {"transient": ("normal", 0.05), "episodes": (0.05, 1.5)}
    found = simulated(one_fleet([(4, 1)], **given), stale(3, load=0.5), draws=100)
    # Nobody, or somebody in an episode: 0.95^4 of the time 1.5, else 2.
    nobody = 0.95**4
    assert found.mean[0] == pytest.approx(1 / (nobody / 1.5 + (1 - nobody) / 2), rel=1e-3)


def test_looser_is_faster_on_the_same_numbers_and_never_beyond_the_slowest() -> None:
    fleet = one_fleet([(31, 1), (1, 1.05)], transient=("lognormal", 0.3))
    means = [float(simulated(fleet, stale(s), draws=100).mean[0]) for s in (0, 1, 2, 4, 8)]
    assert (np.diff(means) < 0).all()
    assert means[-1] > 1.05


def test_more_staleness_than_the_delay_hides_it() -> None:
    fleet = one_fleet([(8, 1)], transient=("normal", 0.02))
    delayed = [float(simulated(fleet, stale(s, delay=2.5), draws=32).mean[0]) for s in (0, 2, 4)]
    assert delayed[0] > 3.5
    assert delayed[1] == pytest.approx(3.5 / 3, rel=0.01)
    assert delayed[2] == pytest.approx(1, rel=0.01)


def test_a_point_alone_and_among_others() -> None:
    whole = np.ones(3, dtype=np.int64)
    cv = np.array([[0.1, 0.3, 0.2], [0.0, 0.0, 0.0]])
    fleet = Fleet(
        num_gpus=np.array([[20.0, 23.0, 12.0], [1.0, 2.0, 0.0]]),
        mean=np.array([[1.0, 1.0, 1.0], [1.1, 1.2, 1.0]]),
        gpus_per_node=whole,
        tensor_parallel_size=whole,
        outside_ratio=np.zeros(3),
        num_removed=0 * whole,
        num_backup=0 * whole,
        autocorrelation=np.zeros(3),
        transient=Source(law=Gamma, shape=cv),
        persistent=Source(law=Normal, shape=cv / 4),
    )
    pattern = Staleness(
        staleness=np.array([2, 1, 4]), delay_ratio=np.zeros(3), load_ratio=np.full(3, 0.1)
    )
    found = simulated(fleet, pattern, draws=64)
    for row in range(3):
        alone = slice(row, row + 1)
        expected = simulated(fleet.part(alone), pattern.part(alone), draws=64)
        np.testing.assert_allclose(found.mean[row], expected.mean[0], rtol=1e-12)
        np.testing.assert_allclose(found.mean_se[row], expected.mean_se[0], rtol=1e-6)


def test_seeds_differ_and_repeat() -> None:
    fleet = one_fleet([(8, 1)], transient=("normal", 0.1))
    first, again, other = (simulated(fleet, stale(1), seed=seed, draws=16) for seed in (1, 1, 2))
    assert first.mean[0] == again.mean[0]
    assert first.mean[0] != other.mean[0]


def test_autocorrelation_makes_staleness_less_of_a_help() -> None:
    fleet = one_fleet([(16, 1)], transient=("normal", 0.1))
    sticky = replace(fleet, autocorrelation=np.array([0.9]))
    assert simulated(sticky, stale(2)).mean[0] > simulated(fleet, stale(2)).mean[0] + 0.01
    # A barrier does not mind.
    barrier = simulated(sticky, stale(0), draws=200)
    assert abs(deviation(barrier, float(pooled_slowest(fleet).mean[0]))) < 4


def test_backup_workers_are_not_covered() -> None:
    found = simulated(one_fleet([(8, 1)], transient=("normal", 0.1), num_backup=1), stale(1))
    assert np.isnan(found.mean[0])
    assert np.isnan(found.mean_se[0])
    assert found.num_rank_steps[0] == 0


def test_too_long_simulations_are_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = one_fleet([(8, 1)], transient=("normal", 0.1), episodes=(0.01, 2.0))
    needed = rank_steps_needed(fleet, stale(1), np.array([16]))
    assert simulated(fleet, stale(1), draws=16).num_rank_steps[0] == needed[0]
    monkeypatch.setattr(module, "MOST_RANK_STEPS", needed[0] - 1)
    assert np.isnan(simulated(fleet, stale(1), draws=16).mean[0])


def test_no_points() -> None:
    nothing = one_fleet([(8, 1)], transient=("normal", 0.1)).part(slice(0, 0))
    assert len(simulated(nothing, stale(1).part(slice(0, 0))).mean) == 0
