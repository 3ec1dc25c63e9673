"""Request bodies of the documentation: each is answered 2xx by an empty service too."""

from typing import Any

# The founding page's step: 30 ms loading, 300 ms compute, 80 ms all-reduce, one GPU at 70 %.
SCENARIO: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}

BATCH_EXAMPLES: dict[str, Any] = {
    "one slow GPU over cluster sizes": {
        "name": "one-slow-gpu",
        "items": [
            {
                "custom_id": "one-slow",
                "name": "one slow GPU",
                "scenario": SCENARIO,
                "axes": [
                    {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}},
                    {
                        "path": "variability.transient",
                        "values": [None, {"kind": "normal", "cv": 0.05}],
                    },
                ],
                "headline": {"num_gpus": 1024, "variability.transient": None},
            }
        ],
    },
    "the same with the GPU replaced": {
        "name": "slow-gpu-replaced",
        "items": [
            {
                "custom_id": "one-slow",
                "name": "one slow GPU",
                "scenario": SCENARIO,
                "overrides": {"slow_groups": []},
                "axes": [
                    {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}},
                    {
                        "path": "variability.transient",
                        "values": [None, {"kind": "normal", "cv": 0.05}],
                    },
                ],
                "headline": {"num_gpus": 1024, "variability.transient": None},
            }
        ],
    },
}
