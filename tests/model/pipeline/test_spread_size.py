"""How much work a spread is."""

from typing import Any

import pytest

from service.model.pipeline.shape import RANDOM
from service.model.pipeline.simulation_size import operations_needed
from service.model.pipeline.spread_size import spread_operations
from tests.model.pipeline.piped_fleets import ints, piped_fleet

# 2 replicas of 24 operations; 6 numbers of GPUs, a number counts as 8 operations.
PLAIN, NUMBERS = 2 * 24, 8 * 6
TRANSIENT: dict[str, Any] = {"transient": ("normal", 0.1)}
PERSISTENT: dict[str, Any] = {"persistent": ("normal", 0.1)}


def _spread(**given: Any) -> float:
    return float(spread_operations(piped_fleet(**given), ints(1000))[0])


def _mean(**given: Any) -> float:
    return float(operations_needed(piped_fleet(**given), ints(1000))[0])


def test_by_hand() -> None:
    # 256 clusters of four rounds, without what lasts as well; what lasts twice for 1 024.
    both = 1024 * (PLAIN + 2 * NUMBERS) + 1024 * (PLAIN + NUMBERS) + 2 * 1024 * (PLAIN + NUMBERS)
    assert _spread(**PERSISTENT, **TRANSIENT) == both
    # With episodes these are drawn in the first ones, once more without what lasts for good, and
    # alone, where all their 8 states of a replica are worked out.
    episodes = 1024 * (NUMBERS + PLAIN + 2 * NUMBERS + PLAIN + NUMBERS) + 8 * 24
    assert _spread(**PERSISTENT, **TRANSIENT, episodes=(0.1, 1.5)) == both + episodes


def test_simulated_once_more() -> None:
    assert _spread(**TRANSIENT) == _mean(**TRANSIENT)
    assert _spread(**PERSISTENT) == _mean(**PERSISTENT)
    assert _spread(slow=[(1, 1.5, RANDOM)]) == _mean(slow=[(1, 1.5, RANDOM)])
    episodes: dict[str, Any] = {"episodes": (0.1, 1.5)}
    assert _spread(**episodes, **TRANSIENT) == _mean(**episodes, **TRANSIENT) + _mean(**TRANSIENT)


@pytest.mark.parametrize(
    "given",
    [
        {"episodes": (0.1, 1.5), "stages": 20, "microbatches": 20, "replicas": 8},
        {**PERSISTENT, "episodes": (0.1, 1.5), "stages": 20, "microbatches": 20, "replicas": 8},
    ],
)
def test_what_has_no_spread_is_no_work(given: dict[str, Any]) -> None:
    assert _spread(**given) == 0
