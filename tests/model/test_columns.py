"""One scenario as columns of one point."""

from service.model.columns import columns_of
from service.model.distributions import FAMILIES
from service.model.scenario import decode_scenario

SCENARIO = {
    "num_gpus": 100,
    "load_ms": 1.5,
    "compute_ms": 2.5,
    "communication": {"kind": "fixed", "allreduce_ms": 3.5},
    "slow_groups": [
        {"count": 3, "speed_fraction": 0.5},
        {"count": 4, "speed_fraction": 0.75},
    ],
    "variability": {"transient": {"kind": "gamma", "cv": 0.125}},
    "period_days": 7,
}


def test_every_field_becomes_a_column() -> None:
    columns = columns_of(decode_scenario(SCENARIO))
    assert columns.num_points == 1
    assert columns.num_gpus.tolist() == [100]
    assert columns.load_ms.tolist() == [1.5]
    assert columns.compute_ms.tolist() == [2.5]
    assert columns.allreduce_ms.tolist() == [3.5]
    assert columns.slow_count.tolist() == [[3, 4]]
    assert columns.slow_speed.tolist() == [[0.5, 0.75]]
    assert columns.num_nominal.tolist() == [93]
    assert FAMILIES[columns.transient_family[0]] == "gamma"
    assert columns.transient_cv.tolist() == [0.125]
    assert columns.period_days.tolist() == [7]


def test_a_bare_scenario_has_no_groups_and_no_family() -> None:
    columns = columns_of(decode_scenario({"num_gpus": 8, "compute_ms": 1}))
    assert columns.slow_count.shape == (1, 0)
    assert columns.slow_speed.shape == (1, 0)
    assert FAMILIES[columns.transient_family[0]] == "none"
    assert columns.num_nominal.tolist() == [8]
