"""Which points take a recursion, and how long it is."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.fleets import structures_of
from service.model.kernel import evaluate
from service.model.pipeline.simulation_size import placement_operations, replica_operations
from service.model.pipeline.spread_size import spread_operations
from service.model.recursion.lengths import rank_steps_needed
from service.model.results import METHODS
from service.model.scenario import decode_scenario
from service.model.simulated_points import (
    OPERATIONS_PER_RANK_STEP,
    is_simulated,
    operations,
    rank_steps,
)

NORMAL = {"kind": "normal", "cv": 0.05}
STALE = {"kind": "bounded_staleness", "staleness": 1, "delay_ms": 500}
RECURSION = METHODS.index("recursion")


def scenario(variability: dict[str, Any], **changes: Any) -> Any:
    base = {"num_gpus": 8, "compute_ms": 300, "draws": 16, "variability": variability}
    return columns_of(decode_scenario({**base, "synchronization": STALE, **changes}))


KINDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"transient": NORMAL}, {}),
    ({"transient": {**NORMAL, "cv": 0}}, {}),
    ({"persistent": NORMAL}, {}),
    ({"persistent": NORMAL, "replica": NORMAL}, {}),
    ({"common": NORMAL}, {}),
    ({"spikes": {"probability": 0.01, "slowdown": 2}}, {}),
    ({"transient": NORMAL}, {"synchronization": {"kind": "every_step"}}),
    ({"transient": NORMAL}, {"synchronization": {"kind": "local_steps", "steps": 4}}),
    (
        {"transient": NORMAL},
        {"synchronization": {"kind": "local_steps", "steps": 4, "overlap_steps": 1}},
    ),
    ({"transient": NORMAL}, {"synchronization": {**STALE, "staleness": 0}}),
]


@pytest.mark.parametrize(("variability", "changes"), KINDS)
def test_points_are_simulated_where_the_kernel_says_so(
    variability: dict[str, Any], changes: dict[str, Any]
) -> None:
    columns = scenario(variability, **changes)
    method = evaluate(columns, with_spread=False).columns["method"]
    assert is_simulated(columns).tolist() == (method == RECURSION).tolist()
    assert (rank_steps(columns) > 0).tolist() == (method == RECURSION).tolist()


def test_each_point_has_its_own_length_among_others() -> None:
    points = [scenario(variability, **changes) for variability, changes in KINDS]
    together = rank_steps(joined(points))
    np.testing.assert_array_equal(together, [rank_steps(point)[0] for point in points])


def test_causes_that_leave_others_are_simulated_too() -> None:
    one = scenario({"transient": NORMAL})
    (structure,) = structures_of(one)
    pattern = structure.fleet.pattern
    assert pattern is not None
    alone = rank_steps_needed(structure.fleet, pattern, one["draws"])
    assert rank_steps(one) == alone
    # With transient and spikes, and with spikes once transient is off; as in `causes.py`.
    spikes = {"spikes": {"probability": 0.01, "slowdown": 2}}
    both, left = scenario({"transient": NORMAL, **spikes}), scenario(spikes)
    (whole,), (rest,) = structures_of(both), structures_of(left)
    expected = sum(
        rank_steps_needed(part.fleet, pattern, both["draws"])
        for part in (whole, rest)
        if (pattern := part.fleet.pattern) is not None
    )
    assert rank_steps(both) == expected > alone


def test_pipelines_are_worked_through_once_more_for_each_cause() -> None:
    """Jitter of single operations goes with `transient`; slow GPUs alone are left at the end."""
    pipeline: dict[str, Any] = {"schedule": "1f1b", "stages": 4, "microbatches": 8}
    jittered = {**pipeline, "per_op_jitter": {"kind": "gamma", "cv": 0.1}}
    slow = [{"count": 1, "speed_fraction": 0.7, "placement": 2}]

    def piped(sources: tuple[str, ...], stages: dict[str, Any]) -> Any:
        waiting = {"kind": "every_step"}
        given = {"pipeline": stages, "slow_groups": slow, "synchronization": waiting}
        return scenario(dict.fromkeys(sources, NORMAL), **given)

    columns = piped(("persistent", "replica"), jittered)
    spread = spread_operations(structures_of(columns)[0].fleet, columns["draws"])
    alone = [
        operations(piped(sources, stages), with_causes=False)[0]
        for sources, stages in (
            (("persistent", "replica"), jittered),
            (("persistent", "replica"), pipeline),
            (("persistent",), pipeline),
            ((), pipeline),
        )
    ]
    assert min(alone) > 0
    fleet, draws = structures_of(columns)[0].fleet, columns["draws"]
    replicas = replica_operations(fleet, draws)
    assert placement_operations(fleet) == 0
    assert spread[0] > 0
    assert operations(columns)[0] == pytest.approx(sum(alone) + spread[0] + replicas[0], rel=1e-12)
    needed = operations(columns, with_spread=False)[0]
    assert needed == pytest.approx(sum(alone) + replicas[0], rel=1e-12)
    assert rank_steps(columns, with_spread=False)[0] == needed / OPERATIONS_PER_RANK_STEP
    assert (operations(scenario({})) == 0).all()
    steady = rank_steps(piped((), pipeline), with_causes=False)
    assert steady[0] == pytest.approx(alone[-1] / OPERATIONS_PER_RANK_STEP)
