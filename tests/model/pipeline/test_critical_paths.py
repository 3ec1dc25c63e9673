import numpy as np
import pytest

from service.model.pipeline.critical_paths import longest_chains
from service.model.pipeline.engine import makespans
from service.model.pipeline.plans import plan_of
from tests.model.pipeline.pipeline_cases import random_cases
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes

STEP = 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_crossings_are_the_slope_of_the_makespan_by_p2p(name: str) -> None:
    """By a difference quotient."""
    rng = np.random.default_rng(4)
    for sizes in list(valid_sizes(name, 5, 11, 3))[::9]:
        cases = random_cases(rng, name, sizes, 8)
        p2p = cases.p2p + 0.01
        stage_ms = cases.forward, cases.backward
        share = cases.weight_fraction
        found = longest_chains(cases.plan, *stage_ms, weight_fraction=share, p2p=p2p)
        low, high = (
            makespans(cases.plan, *stage_ms, weight_fraction=share, p2p=p2p + sign * STEP)
            for sign in (-1, 1)
        )
        assert found.crossings == pytest.approx((high - low) / (2 * STEP), abs=1e-5)
        expected = makespans(cases.plan, *stage_ms, weight_fraction=share, p2p=p2p)
        assert found.makespan == pytest.approx(expected, rel=1e-13)


def test_of_equally_long_chains_that_with_most_crossings_counts() -> None:
    """GPipe, two ranks with no p2p: every chain is as long, one crosses twice."""
    ones = np.ones((2, 1))
    found = longest_chains(
        plan_of("gpipe", 2, 3, 1), ones, ones, weight_fraction=np.array([0.5]), p2p=np.zeros(1)
    )
    assert found.makespan.tolist() == [8.0]
    assert found.crossings.tolist() == [2.0]
