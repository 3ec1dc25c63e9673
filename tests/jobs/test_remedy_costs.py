"""How long remedies take, as far as the order of magnitude goes: measured, and held to it."""

from typing import Any

import pytest

from service.jobs.remedies import Resolved, within_reach
from service.jobs.remedy_costs import ranking_core_s
from service.model.scenario import decode_scenario
from tests.jobs.batch_bodies import SEED

NORMAL, GAMMA = {"kind": "normal", "cv": 0.03}, {"kind": "gamma", "cv": 0.03}
LASTING = {"persistent": NORMAL, "node": NORMAL}
EPISODES = {"rate_per_gpu_day": 0.01, "mean_hours": 6.0, "severity": 1.4}
SPIKES = {"probability": 0.001, "slowdown": 2.0}


def estimate(variability: dict[str, Any], **changes: Any) -> float:
    document = {**SEED, "slow_groups": [], "variability": variability, **changes}
    scenario = decode_scenario(document)
    grid, _ = within_reach(Resolved(scenario=scenario, requests=[]))
    return ranking_core_s(scenario, grid)


@pytest.mark.parametrize(
    ("variability", "changes", "measured_s"),
    [
        ({"node": NORMAL}, {}, 2.1),
        (LASTING, {}, 6.6),
        ({"persistent": NORMAL, "transient": NORMAL}, {}, 4.3),
        ({"node": NORMAL, "transient": NORMAL}, {}, 7.9),
        ({**LASTING, "transient": NORMAL}, {"num_gpus": 512}, 9.0),
        ({**LASTING, "transient": NORMAL}, {"num_gpus": 512, "draws": 4000}, 41.5),
        ({"persistent": GAMMA, "node": GAMMA}, {"draws": 250}, 6.7),
        ({**LASTING, "transient": NORMAL, "spikes": SPIKES}, {"num_gpus": 512, "draws": 250}, 11.8),
        ({**LASTING, "episodes": EPISODES}, {"num_gpus": 128, "draws": 300}, 21.0),
    ],
)
def test_what_was_measured_is_estimated_within_twice(
    variability: dict[str, Any], changes: dict[str, Any], measured_s: float
) -> None:
    assert measured_s / 2 < estimate(variability, **changes) < 2 * measured_s


def test_remedies_that_are_simulated_have_their_own_time() -> None:
    """Nothing of the scenario is simulated, but it is where updates are delayed."""
    assert estimate({"spikes": SPIKES}) > 1 > 2 * estimate({})
