"""Whole scenarios with pipelines against passes worked through operation by operation.

The long run: tests.soak.whole_pipelines.
"""

import numpy as np
import pytest

from tests.model.random_pipes import WAYS, sound_scenario
from tests.soak.whole_pipelines import EQUAL, FAST, compared

SCENARIOS_OF_A_WAY = 8


@pytest.mark.parametrize("way", WAYS)
def test_steps_passes_bubbles_and_losses(way: str) -> None:
    rng = np.random.default_rng(100 + WAYS.index(way))
    scenarios = [{**sound_scenario(rng, way), "draws": FAST} for _ in range(SCENARIOS_OF_A_WAY)]
    found = [compared(document, FAST, rng) for document in scenarios]
    z = np.array([(one.step, one.makespan, one.bubble) for one in found])
    assert np.abs(z).max() < 4
    assert np.abs(z.mean(axis=0)).max() < 4 / SCENARIOS_OF_A_WAY**0.5
    assert all(abs(z) < 4 for one in found for z in (*one.quantiles, *one.spread))
    assert max(one.lost for one in found) < EQUAL
    assert np.abs([one.difference for one in found]).max() < 0.05
