"""Simulated pipelines against steps that are drawn GPU by GPU with other numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.model.fleet import Fleet
from service.model.laws.source import Source
from service.model.pipeline import replica_states
from service.model.pipeline.replica_makespans import replica_makespans
from service.model.pipeline.shape import RANDOM, WORST
from service.model.pipeline.simulate import Piped, num_lanes_of, simulate_pipelines
from service.model.slowest.pooled import pooled_slowest
from tests.model.fleets_for_tests import one_fleet
from tests.model.pipeline.drawn_by_hand import lasting_by_hand, rounds_by_hand, steps_by_hand
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans, ints, piped_fleet

SAMPLED: dict[str, dict[str, Any]] = {
    "transient": {"transient": ("normal", 0.1), "tensor": 2},
    "gamma": {"transient": ("gamma", 0.2), "tensor": 2, "schedule": "gpipe"},
    "replica": {"replica": ("lognormal", 0.1)},
    "common": {"common": ("normal", 0.1), "p2p": 0.05},
    "spikes": {"spikes": (0.05, 1.5), "tensor": 2, "round_steps": 2},
    "spikes and more": {
        "spikes": (0.05, 1.5),
        "slow": [(1, 1.3, RANDOM)],
        "transient": ("normal", 0.1),
    },
    "spikes on many stages": {
        "spikes": (0.05, 1.5),
        "slow": [(1, 1.3, RANDOM)],
        "transient": ("normal", 0.05),
        "stages": 10,
        "microbatches": 2,
    },
    "persistent": {"persistent": ("lognormal", 0.1), "tensor": 2},
    "node": {"node": ("normal", 0.1), "tensor": 2, "gpus_per_node": 4},
    "jitter": {"jitter": ("lognormal", 0.3)},
    "jitter of groups": {"jitter": ("gamma", 0.3), "tensor": 2},
    "jitter and transient": {
        "jitter": ("normal", 0.2),
        "transient": ("normal", 0.1),
        "tensor": 2,
        "common": ("gamma", 0.1),
        "replica": ("gamma", 0.1),
    },
    "all": {
        "transient": ("normal", 0.05),
        "persistent": ("normal", 0.05),
        "node": ("gamma", 0.05),
        "replica": ("normal", 0.05),
        "common": ("gamma", 0.05),
        "spikes": (0.02, 1.2),
        "slow": [(2, 1.3, RANDOM), (1, 1.2, 1)],
        "tensor": 2,
        "gpus_per_node": 4,
    },
    "backup": {"transient": ("normal", 0.1), "replicas": 5, "num_backup": 2},
    "local steps": {"transient": ("normal", 0.1), "round_steps": 3},
    "correlated local steps": {
        "transient": ("normal", 0.1),
        "round_steps": 3,
        "autocorrelation": 0.7,
    },
    "jitter in local steps": {"jitter": ("normal", 0.2), "round_steps": 2, "num_backup": 1},
    "removed": {"persistent": ("normal", 0.1), "num_removed": 3, "tensor": 2},
    "removed slow ones": {
        "persistent": ("normal", 0.05),
        "slow": [(3, 1.3, RANDOM)],
        "num_removed": 2,
    },
    "removed nodes": {"node": ("normal", 0.1), "num_removed": 2, "gpus_per_node": 4},
    "slow and removed": {
        "transient": ("normal", 0.05),
        "slow": [(2, 1.3, RANDOM), (1, 1.5, 1)],
        "num_removed": 1,
        "tensor": 2,
    },
}


def simulated(fleet: Fleet, draws: int = 3000, seed: int = 0) -> Piped:
    alike = ints(1, fleet.num_points)
    return simulate_pipelines(fleet, seed * alike, draws * alike)


@pytest.mark.parametrize("name", SAMPLED)
def test_against_steps_drawn_by_hand(name: str) -> None:
    given = SAMPLED[name]
    if name == "slow and removed":
        # The slowest stand by, wherever they are: none lasting is drawn.
        by_hand = {**given, "slow": [(2, 1.3, RANDOM)], "num_removed": 0}
    else:
        by_hand = given
    expected = steps_by_hand(by_hand, 3000)
    found = simulated(piped_fleet(**given))
    error = np.hypot(expected.std() / 3000**0.5, found.mean_se[0])
    assert abs(found.mean[0] - expected.mean()) < 4 * error
    assert found.rest[0] == found.mean[0]
    assert not found.is_exact[0]
    assert found.variance[0] == pytest.approx(expected.var(), rel=0.25)
    # The share of the other draws up to a quantile, within the scatter of both.
    for probability, quantile in zip((0.5, 0.95, 0.99), found.quantiles[0], strict=True):
        scatter = (probability * (1 - probability) * 2 / 3000) ** 0.5
        share = [(expected < quantile - 1e-9).mean(), (expected < quantile + 1e-9).mean()]
        assert share[0] - 4.5 * scatter < probability < share[1] + 4.5 * scatter


@pytest.mark.parametrize(
    "given",
    [
        {"transient": ("normal", 0.1)},
        {"transient": ("lognormal", 0.2), "replica": ("gamma", 0.1)},
        {"transient": ("normal", 0.05), "persistent": ("normal", 0.05)},
        {"persistent": ("normal", 0.1), "num_removed": 2},
        {"transient": ("normal", 0.05), "spikes": (0.1, 1.3)},
        {"episodes": (0.1, 1.5)},
        {"transient": ("normal", 0.05), "episodes": (0.1, 1.5), "num_backup": 0},
        {"transient": ("normal", 0.1), "num_backup": 1},
    ],
)
def test_one_stage_of_one_gpu_is_a_plain_barrier(given: dict[str, Any]) -> None:
    size: dict[str, Any] = {"replicas": 6, "stages": 1, "tensor": 1, "p2p": 0.0}
    found = simulated(piped_fleet(**size, **given))
    held = 6 + given.get("num_removed", 0)
    expected = float(pooled_slowest(one_fleet([(held, 1)], **given)).mean[0])
    assert abs(found.mean[0] - expected) < 4 * found.mean_se[0] + 1e-9
    assert found.mean_se[0] < 0.01


def test_episodes_alone_are_weighed_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"episodes": (0.05, 1.5), "tensor": 2, "floor": 1.7}
    cluster = cluster_of(**given)
    # All 2^6 states of the stages, each of two GPUs.
    states = (np.arange(64)[:, np.newaxis] >> np.arange(6)) & 1
    share = 1 - 0.95**2
    weight = np.where(states, share, 1 - share).prod(axis=1)
    factor = np.where(states, 1.5, 1.0).reshape(-1, 3).T[:, np.newaxis, np.newaxis]
    step = event_makespans(cluster, factor).reshape(64, 2).max(axis=1)
    assert step.min() < 1.7 < step.max()
    whole = 0.3 + np.maximum(step, 1.7)
    expected = 1 / (weight @ (1 / whole)) - 0.3
    rest = (weight / whole) @ step / (weight @ (1 / whole))
    found = simulated(piped_fleet(**given))
    assert found.is_exact[0]
    assert found.mean[0] == pytest.approx(expected, rel=1e-12)
    assert found.rest[0] == pytest.approx(rest, rel=1e-12)
    # Too many states to be worked out: the same from draws, of which each is a state.
    with monkeypatch.context() as patched:
        patched.setattr(replica_states, "MAX_STATES", 2)
        drawn = simulated(piped_fleet(**given), draws=10_000)
    assert not drawn.is_exact[0]
    assert abs(drawn.mean[0] - expected) < 4 * drawn.mean_se[0]
    assert drawn.mean_se[0] < 0.002
    assert drawn.rest[0] == pytest.approx(rest, abs=0.005)
    assert drawn.rest[0] < drawn.mean[0] - 0.03


def test_episodes_beside_other_sources() -> None:
    given: dict[str, Any] = {
        "episodes": (0.1, 1.6),
        "transient": ("normal", 0.1),
        "persistent": ("normal", 0.05),
        "replicas": 2,
        "stages": 2,
    }
    rng = np.random.default_rng(5)
    # Which GPUs are in an episode, by state: their number matters in expectation only.
    states = (np.arange(16)[:, np.newaxis] >> np.arange(4)) & 1
    weight = np.where(states, 0.1, 0.9).prod(axis=1)
    plain = {name: value for name, value in given.items() if name != "episodes"}
    means = []
    for state in states:
        lasting = lasting_by_hand(plain, 4000, rng) * np.where(state, 1.6, 1.0)
        means.append(rounds_by_hand(plain, lasting, rng)[1].mean())
    expected = 1 / (weight @ (1 / (0.3 + np.array(means)))) - 0.3
    found = simulated(piped_fleet(**given))
    assert abs(found.mean[0] - expected) < 4 * np.hypot(found.mean_se[0], 0.001)
    # Ten times as many draws would not do without what is known of episodes.
    assert found.mean_se[0] < 0.004
    assert found.rest[0] == pytest.approx(found.mean[0], rel=1e-9)


def test_nothing_random_is_exact() -> None:
    fleet = piped_fleet([(1, 1.5, 1), (1, 1.2, 2)], num_removed=1)
    found = simulated(fleet)
    factor = np.ones((3, 1, 1, 1))
    factor[2] = 1.2
    (expected,) = event_makespans(cluster_of(), factor)
    assert found.is_exact[0]
    assert found.mean[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found.quantiles[0], expected, rtol=1e-12)
    assert (found.mean_se[0], found.variance[0]) == (0, 0)


def test_exact_quantiles_and_floor_over_placements() -> None:
    # One slow GPU on 12 places: 6 steps with one of three stages slow.
    given: dict[str, Any] = {"slow": [(1, 1.5, RANDOM)], "replicas": 2, "tensor": 2}
    factor = np.ones((3, 1, 1, 3))
    factor[np.arange(3), 0, 0, np.arange(3)] = 1.5
    steps = np.sort(event_makespans(cluster_of(), factor))
    found = simulated(piped_fleet(**given))
    assert found.mean[0] == pytest.approx(steps.mean(), rel=1e-12)
    np.testing.assert_allclose(found.quantiles[0], steps[[1, 2, 2]], rtol=1e-12)
    assert found.variance[0] == pytest.approx(steps.var(), rel=1e-9)
    floor = float(steps[:2].mean())
    floored = simulated(piped_fleet(**given, floor=floor))
    assert floored.mean[0] == pytest.approx(np.maximum(steps, floor).mean(), rel=1e-12)
    assert floored.rest[0] == pytest.approx(steps.mean(), rel=1e-12)


def test_too_many_states_are_sampled() -> None:
    given: dict[str, Any] = {"slow": [(3, 1.5, RANDOM)], "replicas": 20, "num_backup": 17}
    found = simulated(piped_fleet(**given))
    assert not found.is_exact[0]
    # At most three replicas are slow.
    nominal = simulated(piped_fleet(replicas=20))
    np.testing.assert_allclose(found.mean, nominal.mean, rtol=1e-12)
    few = simulated(piped_fleet(**{**given, "num_backup": 2}))
    assert few.is_exact[0]


def test_a_floor_under_sampled_steps() -> None:
    given: dict[str, Any] = {"transient": ("normal", 0.1), "common": ("normal", 0.05)}
    expected = steps_by_hand(given, 4000)
    floor = float(np.quantile(expected, 0.6))
    found = simulated(piped_fleet(**given, floor=floor))
    error = expected.std() / 4000**0.5
    assert abs(found.mean[0] - np.maximum(expected, floor).mean()) < 4 * error * 2**0.5
    assert abs(found.rest[0] - expected.mean()) < 4 * error * 2**0.5
    assert found.quantiles[0, 0] == floor


def test_worst_places() -> None:
    given: dict[str, Any] = {"slow": [(1, 1.5, WORST)]}
    factor = np.ones((3, 1, 1, 3))
    factor[np.arange(3), 0, 0, np.arange(3)] = 1.5
    expected = event_makespans(cluster_of(), factor).max()
    assert simulated(piped_fleet(**given)).mean[0] == pytest.approx(expected, rel=1e-12)


def _both(one: Fleet, other: Fleet) -> Fleet:
    """Two points."""
    shape, further = one.pipeline, other.pipeline
    assert shape is not None
    assert further is not None
    both: Fleet = replace(_joined(one, other), pipeline=_joined(shape, further))
    return both


def _joined(one: Any, other: Any) -> Any:
    found: dict[str, Any] = {}
    for name in one.__dataclass_fields__:
        value, further = getattr(one, name), getattr(other, name)
        if isinstance(value, np.ndarray):
            found[name] = np.concatenate([value, further], axis=-1)
        elif isinstance(value, Source):
            shape = np.concatenate([value.shape, further.shape], axis=1)
            found[name] = Source(law=value.law, shape=shape)
    return replace(one, **found)


def test_a_point_alone_or_among_others() -> None:
    alike: dict[str, Any] = {"slow": [(1, 1.2, 0)], "jitter": ("normal", 0.1)}
    one = piped_fleet(transient=("normal", 0.1), **alike)
    other = piped_fleet(transient=("normal", 0.2), replicas=5, tensor=2, **alike)
    both = simulated(_both(one, other), draws=100)
    for place, alone in enumerate((one, other)):
        found = simulated(alone, draws=100)
        for values, of_both in zip(found, both, strict=True):
            np.testing.assert_allclose(of_both[place], values[0], rtol=1e-12)


def test_the_same_luck_whatever_else_changes() -> None:
    # A slower schedule, another source switched off: no noise between them.
    given: dict[str, Any] = {"transient": ("normal", 0.1), "stages": 1, "p2p": 0.0}
    few = simulated(piped_fleet(**given, microbatches=2), draws=64)
    many = simulated(piped_fleet(**given, microbatches=8, schedule="gpipe"), draws=64)
    np.testing.assert_allclose(few.mean, many.mean, rtol=1e-12)
    spiked = simulated(piped_fleet(**given, spikes=(1e-9, 2.0)), draws=64)
    # Spikes that no draw has are known to add their share all the same.
    np.testing.assert_allclose(spiked.mean, few.mean + 2 * 1e-9, rtol=1e-12)
    # More replicas never end sooner, draw by draw: nor do their quantiles.
    more = simulated(piped_fleet(**given, replicas=7), draws=64)
    assert (more.quantiles > few.quantiles).all()
    other = simulated(piped_fleet(**given), draws=64, seed=1)
    assert other.mean[0] != few.mean[0]


def test_lanes_hold_all_draws() -> None:
    assert [num_lanes_of(draws) for draws in (16, 17, 1000)] == [2, 3, 125]


@pytest.mark.parametrize(("probability", "slowdown"), [(1e-6, 1000.0), (1e-4, 10.0)])
def test_spikes_that_are_rarer_than_the_draws_are_not_lost(
    probability: float, slowdown: float
) -> None:
    """A step is f(x) without spikes and about s times as long with one: nearly the exact sum."""
    given: dict[str, Any] = {"replicas": 20, "transient": ("normal", 0.02)}
    spikes: dict[str, Any] = {"spikes": (probability, slowdown)}
    together = simulated(piped_fleet(**given, **spikes), draws=400)
    alone = simulated(piped_fleet(replicas=20, **spikes), draws=400)
    without = simulated(piped_fleet(**given), draws=400)
    nominal = float(cluster_of().makespans(np.ones((3, 1)))[0])
    expected = without.mean[0] + alone.mean[0] - nominal
    assert alone.is_exact[0]
    assert abs(together.mean[0] - expected) < 4 * together.mean_se[0]
    assert alone.mean[0] - nominal > 10 * without.mean_se[0]
    passes = replica_makespans(piped_fleet(**given, **spikes), ints(0), ints(400))
    of_one = replica_makespans(piped_fleet(replicas=20, **spikes), ints(0), ints(400))
    plain = replica_makespans(piped_fleet(**given), ints(0), ints(400))
    error = np.hypot(passes.mean_se[0], plain.mean_se[0])
    assert abs(passes.mean[0] - plain.mean[0] - of_one.mean[0] + nominal) < 4 * error
    assert (passes.busy_mean > plain.busy_mean).all()
