"""The pooled slowest GPU against simulation: a few scenarios of every part and pair of parts.

The large run is `python -m tests.soak.pooled_against_draws`.
"""

import numpy as np

from tests.model.brute_force import PARTS
from tests.soak.pooled_against_draws import compared, is_expected_over_placements, pairs


def test_z_are_those_of_a_normal() -> None:
    """Mean 0 and sd 1 within their own sampling errors, and no outlier."""
    found = [(parts, *compared(parts, seed=0, draws=4000)) for parts in pairs()]
    exact = [row for row in found if not is_expected_over_placements(row[1])]
    assert {part for parts, *_ in exact for part in parts} == set(PARTS)
    z = np.array([of_scenario for _, _, of_scenario, _ in exact])
    num_scenarios = len(z)
    assert num_scenarios > 40
    for column in z.T:
        assert abs(column.mean()) < 4 / np.sqrt(num_scenarios)
        assert abs(column.std() - 1) < 4 / np.sqrt(2 * num_scenarios)
    assert np.abs(z).max() < 4.5
