import pytest

from service.model.columns import columns_of
from service.model.pipeline_stages import nominal_stages
from service.model.scenario import decode_scenario


def test_stages_of_unequal_work_by_hand() -> None:
    pipeline = {
        "schedule": "gpipe",
        "stages": 2,
        "microbatches": 3,
        "forward_ms": [1, 2],
        "backward_ms": [2, 5],
    }
    slow = [{"count": 1, "speed_fraction": 0.5}]
    scenario = decode_scenario({"num_gpus": 4, "pipeline": pipeline, "slow_groups": slow})
    found = nominal_stages(columns_of(scenario))
    assert found.forward.tolist() == [1, 2]
    assert found.backward.tolist() == [2, 5]
    assert found.busy.tolist() == [9, 21]
    # Sum and twice the largest of the forwards, and of the backwards: 3 + 2 x 2 + 7 + 2 x 5.
    assert found.idle == pytest.approx([24 - 9, 24 - 21])
    assert found.peak.tolist() == [3, 3]


def test_a_single_stage_is_never_idle() -> None:
    pipeline = {"schedule": "1f1b", "stages": 1, "microbatches": 7}
    scenario = decode_scenario({"num_gpus": 1, "compute_ms": 0.7, "pipeline": pipeline})
    found = nominal_stages(columns_of(scenario))
    assert found.busy == pytest.approx([0.7])
    assert found.idle == pytest.approx([0], abs=1e-15)
    assert found.forward + found.backward == pytest.approx([0.1])
