"""Spikes so rare that the draws may have none."""

from typing import Any

import numpy as np
import pytest

from service.model.pipeline.rare_spikes import rare_spikes
from service.model.pipeline.replica_makespans import replica_makespans
from service.model.pipeline.simulate import simulate_pipelines
from tests.model.pipeline.piped_fleets import cluster_of, event_makespans, ints, piped_fleet

RARE: dict[str, Any] = {"spikes": (1e-6, 1000.0)}


@pytest.mark.parametrize("round_steps", [1, 5])
def test_one_spike_at_one_stage_or_none(round_steps: int) -> None:
    """By hand: three stages of two GPUs in two replicas, each GPU and step alike."""
    cluster = cluster_of(
        [(1, 1.2, 0)],
        tensor=2,
        replicas=2,
        round_steps=round_steps,
        transient=("normal", 0.1),
        **RARE,
    )
    found = rare_spikes(cluster, 400)
    assert found is not None
    factor = np.ones((3, 1, 1, 4))
    factor[:, 0, 0, 1:] += 999 * np.eye(3)
    makespan = event_makespans(cluster_of(), factor)
    assert found.nominal == pytest.approx(makespan[0], rel=1e-12)
    np.testing.assert_allclose(found.of_one, makespan[1:], rtol=1e-12)
    expected = makespan[0] + (makespan - makespan[0]) / round_steps
    np.testing.assert_allclose(found.step, expected, rtol=1e-12)
    some = 1 - (1 - 1e-6) ** (12 * round_steps)
    np.testing.assert_allclose(found.probability, [1 - some, *[some / 3] * 3], rtol=1e-9)
    assert found.of_stage == pytest.approx(1 - (1 - 1e-6) ** 2, rel=1e-9)
    assert found.part.fleet.transient is None
    assert found.part.slow_groups == ()


def test_spikes_that_draws_show_and_replicas_nobody_waits_for() -> None:
    assert rare_spikes(cluster_of(), 400) is None
    assert rare_spikes(cluster_of(spikes=(0.0, 2.0)), 400) is None
    assert rare_spikes(cluster_of(replicas=3, num_backup=1, **RARE), 400) is None
    # Of 6 GPUs one in 80 steps: a hundred draws show it now and then, four thousand for sure.
    often: dict[str, Any] = {"replicas": 2, "spikes": (1 / 480, 3.0)}
    assert rare_spikes(cluster_of(**often), 100) is not None
    assert rare_spikes(cluster_of(**often), 4000) is None
    assert rare_spikes(cluster_of(replicas=2, spikes=(0.1, 3.0)), 16) is None


def test_rounds_and_passes_hold_what_no_draw_has() -> None:
    fleet = piped_fleet(replicas=20, round_steps=10, **RARE)
    found = simulate_pipelines(fleet, ints(0), ints(64))
    factor = np.ones((3, 1, 1, 4))
    factor[:, 0, 0, 1:] += 999 * np.eye(3)
    makespan = event_makespans(cluster_of(), factor)
    longer = float((makespan[1:] - makespan[0]).mean())
    some = 1 - (1 - 1e-6) ** 600
    assert found.mean[0] == pytest.approx(makespan[0] + some * longer / 10, rel=1e-9)
    assert found.mean_se[0] == pytest.approx(0.05 * some * longer / 10, rel=1e-6)
    passes = replica_makespans(fleet, ints(0), ints(64))
    of_replica = 3 * 1e-6 * longer
    assert passes.mean[0] == pytest.approx(makespan[0] + of_replica, rel=1e-9)
    assert passes.mean_se[0] == pytest.approx(0.05 * of_replica, rel=1e-6)
    calm = replica_makespans(piped_fleet(replicas=20), ints(0), ints(64))
    np.testing.assert_allclose(passes.busy_mean, calm.busy_mean * (1 + 1e-6 * 999), rtol=1e-9)


def test_spikes_beside_episodes_are_not_lost() -> None:
    episodes: dict[str, Any] = {"replicas": 10, "episodes": (0.01, 1.5)}
    for spikes in (RARE, RARE | {"stages": 17, "microbatches": 17}):
        size = {name: spikes[name] for name in ("stages", "microbatches") if name in spikes}
        both = simulate_pipelines(piped_fleet(**episodes, **spikes), ints(0), ints(400))
        alone = simulate_pipelines(piped_fleet(**episodes, **size), ints(0), ints(400))
        only = simulate_pipelines(piped_fleet(replicas=10, **spikes), ints(0), ints(400))
        none = simulate_pipelines(piped_fleet(replicas=10, **size), ints(0), ints(400))
        added = only.mean[0] - none.mean[0]
        assert added > 0.01
        error = np.hypot(both.mean_se[0], alone.mean_se[0])
        assert abs(both.mean[0] - alone.mean[0] - added) < 4 * error
        assert error < added
