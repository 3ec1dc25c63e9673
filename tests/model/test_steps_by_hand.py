"""Whole scenarios against steps simulated event by event. The long run: tests.soak.whole_steps."""

import numpy as np
import pytest

from tests.model.random_waits import WAYS
from tests.soak.whole_steps import FAST, compared, sound_scenario

SCENARIOS_OF_A_WAY = 5


@pytest.mark.parametrize("way", WAYS)
def test_mean_and_quantiles_of_a_step(way: str) -> None:
    rng = np.random.default_rng(WAYS.index(way))
    found = [compared(sound_scenario(rng, way), FAST, rng) for _ in range(SCENARIOS_OF_A_WAY)]
    assert np.abs([one.z for one in found]).max() < 4
    assert all(abs(z) < 4 for one in found for z in one.quantile_z)
    assert np.abs([one.difference for one in found]).max() < 0.02
