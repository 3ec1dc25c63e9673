"""Request bodies of the documentation about steps that were timed."""

from typing import Any

OVERLAP_AUDITS: dict[str, Any] = {
    "the phases of a step": {
        "load_ms": 30,
        "compute_ms": 300,
        "communication_ms": 80,
        "step_ms": 350,
        "step_sd_ms": 0.5,
        "load_is_prefetched": False,
    },
    "with a run without synchronisation and the collectives alone": {
        "compute_ms": 300,
        "communication_ms": 80,
        "step_ms": 410,
        "no_communication_step_ms": 370,
        "isolated_communication_ms": 60,
    },
}

COARSE_CALIBRATIONS: dict[str, Any] = {
    "1 024 GPUs": {
        "num_gpus": 1024,
        "step_p50_ms": 458,
        "step_p95_ms": 470,
        "load_ms": 30,
        "communication_ms": 80,
    },
}
