import numpy as np
import pytest

from service.model.pipeline import critical_paths
from service.model.pipeline.critical_paths import longest_chains
from service.model.pipeline.engine import makespans
from tests.model.pipeline.pipeline_cases import random_cases
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes

STEP = 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_crossings_are_the_slope_of_the_makespan_by_p2p(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a difference quotient; blocks of seven lanes or fewer."""
    rng = np.random.default_rng(4)
    for sizes in list(valid_sizes(name, 5, 11, 3))[::9]:
        cases = random_cases(rng, name, sizes, 8)
        monkeypatch.setattr(critical_paths, "_BLOCK_VALUES", 7 * cases.plan.num_operations + 1)
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
