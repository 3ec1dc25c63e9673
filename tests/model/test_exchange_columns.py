"""What is known of a step's communication."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario


@pytest.mark.parametrize(
    ("synchronization", "overlap", "exposed_ms", "hidden", "last_ms"),
    [
        # 100 ms once in 20 steps, in one piece or in four: nothing of it is hidden.
        ({"steps": 20}, {"kind": "none"}, 5.0, 0.0, None),
        ({"steps": 20, "fragments": 4}, {"kind": "none"}, 5.0, 0.0, None),
        # Behind one step of compute, 300 ms, all of it is.
        ({"steps": 20, "overlap_steps": 1}, {"kind": "none"}, 0.0, 1.0, None),
        # In buckets of 10 ms behind backward all but the last.
        ({"steps": 20}, {"kind": "buckets", "num_buckets": 10}, 0.5, 0.9, 0.5),
    ],
)
def test_of_local_steps_only_what_is_exchanged_can_be_hidden(
    synchronization: dict[str, Any],
    overlap: dict[str, Any],
    exposed_ms: float,
    hidden: float,
    last_ms: float | None,
) -> None:
    scenario = {
        "num_gpus": 8,
        "compute_ms": 300,
        "communication": {"kind": "fixed", "allreduce_ms": 100},
        "overlap": overlap,
        "synchronization": {"kind": "local_steps", **synchronization},
    }
    found = evaluate(columns_of(decode_scenario(scenario))).columns
    assert found["communication_ms"][0] == 100
    assert found["exposed_communication_ms"][0] == pytest.approx(exposed_ms, abs=1e-9)
    assert found["hidden_communication_fraction"][0] == pytest.approx(hidden, abs=1e-9)
    last = found["last_bucket_ms"][0]
    assert (None if np.isnan(last) else last) == last_ms
