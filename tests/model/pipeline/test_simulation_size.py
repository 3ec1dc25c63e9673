"""How much work a simulation is."""

from typing import Any

import numpy as np
import pytest

from service.model.pipeline.shape import RANDOM, WORST
from service.model.pipeline.simulation_size import (
    MAX_WHOLE_GPUS,
    operations_needed,
    placement_operations,
    replica_operations,
)
from tests.model.pipeline.piped_fleets import ints, piped_fleet

TRANSIENT: dict[str, Any] = {"transient": ("normal", 0.1)}


def _needed(draws: int = 1000, **given: Any) -> float:
    return float(operations_needed(piped_fleet(**given), ints(draws))[0])


def test_by_hand() -> None:
    # 2 replicas of 2 x 3 x 4 operations; 6 numbers of GPUs, a number counts as 8 operations.
    assert _needed(**TRANSIENT) == 1000 * (2 * 24 + 8 * 6)
    assert _needed(**TRANSIENT, draws=17) == 24 * (2 * 24 + 8 * 6)
    assert _needed(**TRANSIENT, round_steps=5) == 5000 * (2 * 24 + 8 * 6)
    # A backward in two halves.
    assert _needed(**TRANSIENT, schedule="zb1p") == 1000 * (2 * 36 + 8 * 6)
    # Jitter: of all operations; of GPUs that differ, one each.
    assert _needed(jitter=("normal", 0.1), tensor=2) == 1000 * (48 + 8 * 48)
    both = _needed(jitter=("normal", 0.1), tensor=2, **TRANSIENT)
    assert both == 1000 * (48 + 8 * (2 * 48 + 12))
    lasting = _needed(persistent=("normal", 0.1), num_removed=3)
    assert lasting == 1000 * (48 + 8 * 9)


def test_exact_ones_count_their_makespans() -> None:
    assert _needed() == 24
    assert _needed(slow=[(1, 1.5, RANDOM)]) == 4 * 24
    # Beside another source both are drawn, and what is known is worked out.
    both = _needed(slow=[(1, 1.5, RANDOM)], **TRANSIENT)
    assert both == 1000 * (2 * 2 * 24 + 8 * (2 * 6 + 6)) + 4 * 24
    assert _needed(slow=[(3, 1.5, RANDOM)], replicas=50, num_backup=20) > 1000 * 50 * 24


@pytest.mark.parametrize(
    "given",
    [{}, TRANSIENT, {"slow": [(1, 1.5, RANDOM)]}, {"jitter": ("normal", 0.1)}],
)
def test_more_is_never_less(given: dict[str, Any]) -> None:
    needed = _needed(**given)
    further: tuple[dict[str, Any], ...] = (
        {"replicas": 3},
        {"microbatches": 5},
        {"stages": 4},
        {"tensor": 2},
    )
    for more in further:
        assert _needed(**{**given, **more}) >= needed
    sources: tuple[dict[str, Any], ...] = (
        {"persistent": ("normal", 0.1)},
        {"spikes": (0.1, 1.2)},
        {"episodes": (0.1, 2)},
    )
    for more in sources:
        assert _needed(**given, **more) > needed
    assert _needed(**given, draws=2000) >= needed


def test_clusters_too_large_to_be_held() -> None:
    replicas = MAX_WHOLE_GPUS // 3 + 1
    given: dict[str, Any] = {"replicas": replicas, "slow": [(1, 1.5, RANDOM)]}
    assert np.isfinite(_needed(**given))
    assert _needed(**given, **TRANSIENT) == np.inf
    assert np.isfinite(_needed(replicas=replicas, **TRANSIENT))
    removed: dict[str, Any] = {"persistent": ("normal", 0.1), "num_removed": 1}
    assert _needed(replicas=replicas, **removed) == np.inf


def _of_replicas(draws: int = 1000, **given: Any) -> float:
    return float(replica_operations(piped_fleet(**given), ints(draws))[0])


def test_single_replicas_by_hand() -> None:
    # As it is, and twice with nothing that varies, each state of 24 operations.
    assert _of_replicas() == 3 * 24
    assert _of_replicas(jitter=("normal", 0.1)) == 1000 * 9 * 48 + 2 * 24
    # 16 384 makespans: of 1 000 draws 17 replicas each, of 5 steps a round 4.
    many = _of_replicas(jitter=("normal", 0.1), replicas=100)
    assert many == pytest.approx(1000 * 9 * 17 * 24 + 2 * 24, rel=1e-12)
    rounds = _of_replicas(jitter=("normal", 0.1), replicas=100, round_steps=5)
    assert rounds == pytest.approx(5000 * 9 * 4 * 24 + 2 * 24, rel=1e-12)
    # GPUs that differ for good are drawn in all three.
    lasting = _of_replicas(persistent=("normal", 0.1))
    assert lasting == 3 * _needed(persistent=("normal", 0.1))


def test_worst_places_count_all_that_are_tried() -> None:
    def needed(**given: Any) -> float:
        return float(placement_operations(piped_fleet(**given))[0])

    assert needed() == needed(slow=[(1, 1.5, RANDOM)]) == needed(slow=[(1, 1.5, 2)]) == 0
    # 3 stages: one slow GPU has 3 places, with handing on and without; a quarter each.
    assert needed(slow=[(1, 1.5, WORST)], p2p=0.1) == 2 * 3 * 24 / 4
    assert needed(slow=[(1, 1.5, WORST)], p2p=0) == 3 * 24 / 4
    assert needed(slow=[(1, 1.5, WORST), (1, 1.2, WORST)], p2p=0) == 6 * 24 / 4
