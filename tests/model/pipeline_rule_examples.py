"""Scenarios that break, or nearly break, a rule about pipelines; of 64 GPUs, 300 ms of compute."""

from typing import Any

GAMMA = {"kind": "gamma", "cv": 0.1}
PIPELINE: dict[str, Any] = {"schedule": "1f1b", "stages": 8, "microbatches": 8}
TIMES = {"forward_ms": 12.5, "backward_ms": 25}
SLOW = {"count": 1, "speed_fraction": 0.7}


def piped(**changes: Any) -> dict[str, Any]:
    """A pipeline of 8 stages and 8 micro-batches but for these fields."""
    return {"pipeline": {**PIPELINE, **changes}}


def strong(num_gpus: int, **changes: Any) -> dict[str, Any]:
    """The same with its work divided."""
    return {**piped(**changes), "scaling": {"kind": "strong", "reference_num_gpus": num_gpus}}


BROKEN: dict[str, list[dict[str, Any]]] = {
    "missing_field": [{"compute_ms": None}, {"compute_ms": None, **piped()}],
    "stage_times_incomplete": [
        piped(forward_ms=12.5),
        piped(backward_ms=25),
        piped(**TIMES, stage_weights=[1] * 8),
    ],
    "stage_times_wrong_length": [
        piped(**TIMES | {"forward_ms": [12.5] * 7}),
        piped(**TIMES | {"backward_ms": [25] * 9}),
        piped(stage_weights=[1, 2]),
    ],
    "compute_not_of_stages": [piped(**TIMES | {"forward_ms": 12.6})],
    "no_whole_pipelines": [
        {**piped(), "num_gpus": 60},
        {**piped(), "num_gpus": 4},
        {**piped(), "tensor_parallel_size": 4, "num_gpus": 48},
        {**piped(), "num_evicted_gpus": 2},
    ],
    "microbatches_not_whole": [strong(33), strong(32, **TIMES), strong(1, microbatches=4)],
    "too_many_operations": [piped(microbatches=65_536)],
    "schedule_not_for_sizes": [
        piped(schedule="naive"),
        piped(chunks_per_stage=2),
        piped(schedule="interleaved_1f1b"),
        piped(schedule="interleaved_1f1b", chunks_per_stage=2, microbatches=17),
        piped(schedule="zbv"),
        piped(schedule="dualpipev"),
        piped(schedule="dualpipe", microbatches=8),
        {**strong(32, schedule="dualpipe", microbatches=16), "num_gpus": 64},
    ],
    "no_such_stage": [
        {**piped(), "slow_groups": [SLOW, {**SLOW, "placement": 8}]},
        {"slow_groups": [{**SLOW, "placement": 0}]},
    ],
    "too_many_slow_gpus_at_stage": [
        {**piped(), "slow_groups": [{**SLOW, "placement": 2, "count": 9}]},
        {
            **piped(),
            "slow_groups": [
                {**SLOW, "placement": 3},
                SLOW,
                {**SLOW, "placement": 2, "count": 5},
                {**SLOW, "placement": 2, "count": 4},
            ],
        },
    ],
    "overlap_not_with_pipeline": [
        {**piped(), "overlap": {"kind": "buckets", "num_buckets": 4}},
    ],
    "waiting_not_with_pipeline": [
        {**piped(), "synchronization": {"kind": "bounded_staleness", "staleness": 1}},
        {**piped(), "synchronization": {"kind": "delayed_update"}},
        {**piped(), "synchronization": {"kind": "local_steps", "steps": 4, "fragments": 2}},
        {**piped(), "synchronization": {"kind": "local_steps", "steps": 4, "overlap_steps": 1}},
        {
            **piped(),
            "synchronization": {"kind": "local_steps", "steps": 4, "release_fraction": 0.5},
        },
        {
            **piped(),
            "load_ms": 10,
            "overlap": {"kind": "none", "load_prefetch": True},
            "synchronization": {"kind": "local_steps", "steps": 4},
        },
    ],
    "too_many_placements": [
        {
            **piped(stages=32),
            "slow_groups": [{**SLOW, "count": 16, "placement": "worst"}],
        }
    ],
    "too_many_operations_sampled": [
        {
            **piped(microbatches=256),
            "num_gpus": 1_000_000,
            "variability": {"transient": GAMMA},
            "draws": 100_000,
        }
    ],
}
OF_JITTER: dict[str, list[dict[str, Any]]] = {
    "cv_too_large_for_normal": [piped(per_op_jitter={"kind": "normal", "cv": 0.31})],
    "cv_too_large_in_product": [
        {
            **piped(per_op_jitter={"kind": "normal", "cv": 0.25}),
            "variability": {"transient": GAMMA},
        },
        {
            **piped(per_op_jitter=GAMMA),
            "variability": {"transient": {"kind": "normal", "cv": 0.25}},
        },
    ],
    "beyond_observed_tail": [piped(per_op_jitter={"kind": "empirical", "quantiles": [1, 2, 3]})],
    "factor_below_zero": [piped(per_op_jitter={"kind": "shifted_gamma", "cv": 0.2, "skew": 0.3})],
    "too_many_backup_workers": [
        {**piped(), "synchronization": {"kind": "backup_workers", "count": 5}}
    ],
}

NEARLY: list[dict[str, Any]] = [
    piped(),
    piped(**TIMES),
    {"compute_ms": None, **piped(**TIMES)},
    piped(**TIMES | {"forward_ms": [12.5] * 8}),
    piped(stage_weights=[*range(1, 9)]),
    {**piped(), "tensor_parallel_size": 4, "num_gpus": 64},
    {**piped(), "num_evicted_gpus": 8},
    strong(32, microbatches=16),
    piped(schedule="naive", microbatches=1),
    piped(schedule="interleaved_1f1b", chunks_per_stage=2),
    {**piped(), "slow_groups": [{**SLOW, "placement": 7, "count": 8}, SLOW]},
    {**piped(), "slow_groups": [{**SLOW, "placement": "worst", "count": 8}]},
    {"slow_groups": [{**SLOW, "placement": "worst", "count": 8}]},
    {**piped(), "overlap": {"kind": "none", "load_prefetch": True}, "load_ms": 10},
    {**piped(), "synchronization": {"kind": "local_steps", "steps": 4}},
    {**piped(), "synchronization": {"kind": "backup_workers", "count": 4}},
    {
        **piped(),
        "synchronization": {"kind": "backup_workers", "count": 1},
        "variability": {"node": GAMMA},
        "draws": 16,
    },
    {
        **piped(),
        "slow_groups": [{**SLOW, "count": 8, "placement": 3}],
        "num_evicted_gpus": 8,
    },
    {
        **piped(),
        "variability": {"node": GAMMA},
        "slow_groups": [SLOW],
        "num_spare_gpus": 1,
        "draws": 16,
    },
    {
        **piped(per_op_jitter={"kind": "normal", "cv": 0.25}),
        "variability": {"common": {"kind": "gamma", "cv": 0}},
        "draws": 16,
    },
    {
        **piped(),
        "variability": {"node": GAMMA},
        "slow_groups": [{"count": 1, "speed_fraction": 0.5 + n / 20} for n in range(6)],
        "draws": 16,
    },
]
