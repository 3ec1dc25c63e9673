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

# The founding page's 8 GPUs of which 2 or 3 work: 8 stages, 4 micro-batches.
EIGHT_STAGES: dict[str, Any] = {
    "num_gpus": 8,
    "pipeline": {
        "schedule": "1f1b",
        "stages": 8,
        "microbatches": 4,
        "forward_ms": 10,
        "backward_ms": 20,
    },
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
    "how many of 8 GPUs in a pipeline work, by its micro-batches": {
        "name": "pipeline-bubbles",
        "items": [
            {
                "custom_id": "eight-stages",
                "name": "8 stages",
                "scenario": EIGHT_STAGES,
                "axes": [{"path": "pipeline.microbatches", "values": [1, 3, 4, 8, 32]}],
            }
        ],
    },
}

VARIED: dict[str, Any] = {
    **SCENARIO,
    "slow_groups": [],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}

# 7e9 parameters of 16 bit over a link of 400 Gbit/s from GPU to GPU.
LINKED: dict[str, Any] = {
    "num_gpus": 64,
    "compute_ms": 300,
    "communication": {
        "kind": "ring",
        "parameters": 7e9,
        "link": {"latency_us": 10, "bandwidth_gigabytes_per_s": 50},
    },
}
OVERLAPPED: dict[str, Any] = {
    **LINKED,
    "overlap": {"kind": "buckets", "num_buckets": 25, "contention_fraction": 0.189},
}
# Two sites 80 ms apart, that exchange 2e9 bytes.
FAR: dict[str, Any] = {
    "num_gpus": 2,
    "compute_ms": 300,
    "communication": {
        "kind": "ring",
        "message_bytes": 2e9,
        "link": {
            "latency_us": 40_000,
            "bandwidth_gigabytes_per_s": 1.25,
            "round_trip_ms": 80,
            "window_bytes": 16e6,
            "flows": 8,
        },
    },
    "synchronization": {"kind": "local_steps", "steps": 100},
}

# A model in 8 stages, 4 micro-batches a step: of each 8 GPUs fewer than 3 work on average.
PIPED: dict[str, Any] = {
    "num_gpus": 64,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "pipeline": {"schedule": "1f1b", "stages": 8, "microbatches": 4, "p2p_ms": 0.5},
}

EVALUATIONS: dict[str, Any] = {
    "one slow GPU among 1 024": {"scenario": SCENARIO},
    "every step varies by 5 %": {"scenario": VARIED, "ranks_limit": 8},
    "the same with the slow GPU replaced": {
        "scenario": SCENARIO,
        "overrides": {"slow_groups": []},
        "ranks_limit": 0,
    },
    "strong scaling: the work of 256 GPUs on 1 024, until a million steps are done": {
        "scenario": {
            **SCENARIO,
            "scaling": {"kind": "strong", "reference_num_gpus": 256},
            "total_steps": 1_000_000,
        },
        "ranks_limit": 0,
    },
    "what matters most, and how much the tail does": {
        "scenario": VARIED,
        "ranks_limit": 0,
        "sensitivity": {"intervals": {"variability.transient.cv": [0.005, 0.05]}},
        "model_spread": True,
        "independent_ranks": True,
    },
    "gradients in 25 buckets, behind the backward pass": {
        "scenario": OVERLAPPED,
        "ranks_limit": 0,
    },
    "two far sites that exchange every 100 steps": {"scenario": FAR, "ranks_limit": 0},
    "8 GPUs in a pipeline, of which 3 work": {"scenario": EIGHT_STAGES},
    "gradients one step late, simulated": {
        "scenario": {
            **SCENARIO,
            "num_gpus": 8,
            "slow_groups": [],
            "variability": {"transient": {"kind": "normal", "cv": 0.05}},
            "synchronization": {"kind": "delayed_update", "extra_steps_fraction": 0.02},
        },
        "ranks_limit": 0,
    },
    "with money, where rates of this GPU type are stored": {
        "scenario": {**SCENARIO, "total_steps": 1_000_000},
        "ranks_limit": 0,
        "pricing": {"gpu_type": "H100-SXM"},
        "currency": "EUR",
        "start_on": "2026-12-01",
    },
    "with a typed price, and as soon as possible": {
        "scenario": VARIED,
        "ranks_limit": 16,
        "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
        "leave_out": ["spread", "causes", "quantiles"],
    },
}

CURVES: dict[str, Any] = {
    "the loss of every step that varies by 5 %, against the number of GPUs": {
        "scenario": VARIED,
        "leave_out": ["spread"],
    },
    "against how slow one GPU of 1 024 is": {
        "scenario": SCENARIO,
        "axis": {
            "path": "slow_groups.0.speed_fraction",
            "range": {"start": 0.5, "stop": 1.0, "step": 0.1},
        },
        "single_draw": False,
    },
}

TIMELINES: dict[str, Any] = {
    "8 stages and 4 micro-batches": {"scenario": EIGHT_STAGES},
    "the slowest replica, with a slow GPU at its last stage and jitter": {
        "scenario": {
            **EIGHT_STAGES,
            "num_gpus": 32,
            "load_ms": 5,
            "communication": {"kind": "fixed", "allreduce_ms": 20},
            "slow_groups": [{"count": 1, "speed_fraction": 0.7, "placement": 7}],
        },
        "overrides": {
            "pipeline.p2p_ms": 0.5,
            "pipeline.per_op_jitter": {"kind": "lognormal", "cv": 0.05},
        },
        "draw": "drawn",
    },
}

PIPELINE_SEARCHES: dict[str, Any] = {
    "what else could be done with 64 GPUs that hold no more than now": {
        "scenario": PIPED,
        "search": {"max_activation_ratio": 1, "max_parameter_ratio": 1},
    },
    "sizes and schedules of your own, at most 8 micro-batches in flight": {
        "scenario": PIPED,
        "search": {
            "stages": [4, 8, 16],
            "microbatches": [8, 16, 32],
            "chunks_per_stage": [1, 2],
            "schedules": ["1f1b", "interleaved_1f1b", "zb_h1", "zbv"],
            "max_microbatches_in_flight": 8,
            "limit": 5,
        },
    },
    "with money, where rates of this GPU type are stored": {
        "scenario": PIPED,
        "search": {"stages": [8]},
        "pricing": {"gpu_type": "H100-SXM"},
        "currency": "EUR",
        "start_on": "2026-12-01",
    },
}

QUESTIONS: dict[str, Any] = {
    "fewest micro-batches that lose at most a tenth to the bubble": {
        "scenario": PIPED,
        "unknown": {"path": "pipeline.microbatches", "maximum": 1024},
        "seek": "smallest",
        "target": {"column": "bubble_fraction", "at_most": 0.1},
    },
    "most stages that spend at most half of their time in bubbles": {
        "scenario": PIPED,
        "unknown": {"path": "pipeline.stages"},
        "seek": "largest",
        "target": {"column": "bubble_fraction", "at_most": 0.5},
    },
    "longest hand-over between stages for 30 % efficiency": {
        "scenario": PIPED,
        "unknown": {"path": "pipeline.p2p_ms"},
        "seek": "largest",
        "target": {"column": "efficiency_fraction", "at_least": 0.3},
        "tolerance": 1e-6,
    },
    "largest cluster that stays 90 % efficient": {
        "scenario": VARIED,
        "unknown": {"path": "num_gpus"},
        "seek": "largest",
        "target": {"column": "efficiency_fraction", "at_least": 0.9},
    },
    "largest variability that loses at most 50 000 GPU-hours": {
        "scenario": VARIED,
        "unknown": {"path": "variability.transient.cv"},
        "seek": "largest",
        "target": {"column": "gpu_hours_lost", "at_most": 50_000},
    },
    "slowest speed of one GPU that loses at most 50 000 GPU-hours": {
        "scenario": SCENARIO,
        "unknown": {"path": "slow_groups.0.speed_fraction"},
        "seek": "smallest",
        "target": {"column": "gpu_hours_lost", "at_most": 50_000},
        "tolerance": 1e-6,
    },
    "fewest spares with which one slow GPU loses at most 1 000 GPU-hours": {
        "scenario": SCENARIO,
        "unknown": {"path": "num_spare_gpus", "maximum": 64},
        "seek": "smallest",
        "target": {"column": "gpu_hours_lost", "at_most": 1_000},
    },
    "bandwidth for 95 % utilization, with gradients in 25 buckets": {
        "scenario": OVERLAPPED,
        "unknown": {"path": "communication.link.bandwidth_gigabytes_per_s"},
        "seek": "smallest",
        "target": {"column": "useful_compute_fraction", "at_least": 0.95},
        "tolerance": 1e-6,
    },
    "fewest local steps H for 90 % utilization": {
        "scenario": FAR,
        "unknown": {"path": "synchronization.steps"},
        "seek": "smallest",
        "target": {"column": "useful_compute_fraction", "at_least": 0.9},
    },
    "staleness that hides a delay of 5 s: ceil(delay / step)": {
        "scenario": {
            "num_gpus": 64,
            "load_ms": 30,
            "compute_ms": 300,
            "synchronization": {
                "kind": "bounded_staleness",
                "staleness": 0,
                "delay_ms": 5000,
            },
        },
        "unknown": {"path": "synchronization.staleness"},
        "seek": "smallest",
        "target": {"column": "exposed_communication_ms", "at_most": 0},
    },
    "largest round trip that leaves 80 % utilization": {
        "scenario": FAR,
        "unknown": {"path": "communication.link.round_trip_ms"},
        "seek": "largest",
        "target": {"column": "useful_compute_fraction", "at_least": 0.8},
        "tolerance": 1e-6,
    },
    "an efficiency that one GPU at 70 % does not allow at any size": {
        "scenario": SCENARIO,
        "unknown": {"path": "num_gpus"},
        "seek": "largest",
        "target": {"column": "efficiency_fraction", "at_least": 0.9},
    },
}

_OUTPUT = """\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 134217728 step: 128(factor) warmup iters: 5 \
iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
""" + "".join(
    f"#  Rank  {rank} Group  0 Pid    313 on worker-0 device  {rank} [0x{24 + rank:02x}] H100\n"
    for rank in range(8)
)
_OUTPUT += """\
#
#                                             out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time\
   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)\
  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    55.12   19.02   33.29      0    54.03\
   19.41   33.96      0
   134217728      33554432     float     sum      -1   1089.6  123.18  215.57      0   1101.2\
  121.88  213.29      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 124.03
#
"""
MEASUREMENTS: dict[str, Any] = {
    "all_reduce_perf on eight GPUs": {"text": _OUTPUT, "column": "in_place"},
}

REMEDY_EXAMPLES: dict[str, Any] = {
    "what would help each cluster": {
        "name": "what-helps",
        "items": [
            {
                "custom_id": "one-slow",
                "name": "one slow GPU",
                "scenario": SCENARIO,
                "analysis": "remedies",
            },
            {
                "custom_id": "uneven",
                "name": "uneven GPUs",
                "scenario": {
                    **SCENARIO,
                    "slow_groups": [],
                    "variability": {"persistent": {"kind": "lognormal", "cv": 0.03}},
                },
                "analysis": "remedies",
                "remedies": [
                    {"kind": "hot_spares", "counts": [1, 2, 4, 8]},
                    {"kind": "rebalance_work"},
                ],
            },
        ],
    },
}
