"""One scenario as columns of one point."""

from service.model.columns import COUNT, SPEED, columns_of
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
    assert columns["num_gpus"].tolist() == [100]
    assert columns["load_ms"].tolist() == [1.5]
    assert columns["compute_ms"].tolist() == [2.5]
    assert columns["communication.allreduce_ms"].tolist() == [3.5]
    assert columns[COUNT].tolist() == [[3, 4]]
    assert columns[SPEED].tolist() == [[0.5, 0.75]]
    assert columns.num_nominal.tolist() == [93]
    assert FAMILIES[columns["variability.transient.kind"][0]] == "gamma"
    assert columns["variability.transient.cv"].tolist() == [0.125]
    assert columns["period_days"].tolist() == [7]


def test_a_bare_scenario_has_no_groups_and_no_family() -> None:
    columns = columns_of(decode_scenario({"num_gpus": 8, "compute_ms": 1}))
    assert columns[COUNT].shape == (1, 0)
    assert columns[SPEED].shape == (1, 0)
    assert FAMILIES[columns["variability.transient.kind"][0]] == "none"
    assert columns.num_nominal.tolist() == [8]
