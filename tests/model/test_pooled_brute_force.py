"""The pooled slowest GPU against simulation: a few scenarios of every part and pair of parts.

The large run is `python -m tests.soak.pooled_against_draws`.
"""

import numpy as np

from tests.model.brute_force import PARTS
from tests.soak.pooled_against_draws import compared, is_expected_over_placements, pairs


def test_z_are_those_of_a_normal() -> None:
    """Mean 0 and sd 1 within their own sampling errors, and no outlier."""
    exact = [parts for parts in pairs() if not is_expected_over_placements(parts)]
    z = np.array([compared(parts, seed=0, draws=4000)[1] for parts in exact])
    num_scenarios = len(z)
    assert num_scenarios > 30
    assert {part for parts in exact for part in parts} == set(PARTS)
    for column in z.T:
        assert abs(column.mean()) < 4 / np.sqrt(num_scenarios)
        assert abs(column.std() - 1) < 4 / np.sqrt(2 * num_scenarios)
    assert np.abs(z).max() < 4.5


def test_expected_placements_are_close() -> None:
    """Classes that fall on random blocks: the mean to 2 in a thousand even for a few GPUs."""
    for parts in filter(is_expected_over_placements, pairs()):
        scenario, z, relative = compared(parts, seed=0, draws=4000)
        assert abs(relative) < 2e-3 or abs(z[0]) < 4, scenario
