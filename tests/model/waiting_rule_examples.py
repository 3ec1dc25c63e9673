"""Scenarios that break, or nearly break, a rule about communication, overlap or synchronization."""

from typing import Any

GAMMA = {"kind": "gamma", "cv": 0.1}
EPISODES = {"rate_per_gpu_day": 1, "mean_hours": 1, "severity": 1.5}
LINK = {"latency_us": 10, "bandwidth_gigabytes_per_s": 10}
RING: dict[str, Any] = {"kind": "ring", "message_bytes": 1e9, "link": LINK}
HIERARCHICAL = {**RING, "kind": "hierarchical", "intra_link": LINK}
MEASURED = {
    "kind": "measured",
    "sizes_bytes": [1e6, 1e9],
    "times_ms": [1, 100],
    "message_bytes": 1e8,
}
BUCKETS: dict[str, Any] = {"kind": "buckets", "num_buckets": 10}
FSDP = {"kind": "fsdp", "num_layers": 10}
LOCAL: dict[str, Any] = {"kind": "local_steps", "steps": 10}
STALE = {"kind": "bounded_staleness", "staleness": 1}
BACKUP = {"kind": "backup_workers", "count": 4}
MANY = {"num_gpus": 10_000_000, "variability": {"transient": GAMMA}}

BROKEN: dict[str, list[dict[str, Any]]] = {
    "not_one_bucket_size": [
        {"overlap": {"kind": "buckets"}},
        {"overlap": {**BUCKETS, "bucket_shares": [1, 2]}},
        {"overlap": {**BUCKETS, "bucket_bytes": 1e8}, "communication": RING},
    ],
    "bucket_bytes_without_message": [{"overlap": {"kind": "buckets", "bucket_bytes": 1e8}}],
    "too_many_buckets": [
        {"overlap": {"kind": "buckets", "bucket_bytes": 1e4}, "communication": RING}
    ],
    "overlap_not_with_synchronization": [
        *(
            {"overlap": FSDP, "communication": RING, "synchronization": synchronization}
            for synchronization in (LOCAL, STALE, BACKUP, {"kind": "delayed_update"})
        ),
        *(
            {"overlap": BUCKETS, "synchronization": synchronization}
            for synchronization in (
                STALE,
                {"kind": "delayed_update"},
                {**LOCAL, "fragments": 2},
                {**LOCAL, "overlap_steps": 1},
                {**LOCAL, "release_fraction": 0.5},
            )
        ),
    ],
    "fragments_not_dividing_steps": [
        {"synchronization": {**LOCAL, "fragments": 3}},
        {"synchronization": {**LOCAL, "fragments": 20}},
    ],
    "overlap_steps_too_many": [
        {"synchronization": {**LOCAL, "overlap_steps": 10}},
        {"synchronization": {**LOCAL, "fragments": 5, "overlap_steps": 2}},
    ],
    "standing_by_in_episodes": [
        {
            "synchronization": STALE,
            "variability": {"node": GAMMA, "episodes": EPISODES},
            "num_spare_gpus": 2,
        },
        {
            "synchronization": {**LOCAL, "overlap_steps": 2},
            "variability": {"persistent": GAMMA, "episodes": EPISODES},
            "num_evicted_gpus": 2,
        },
    ],
    "not_one_message": [
        {"communication": {"kind": "ring", "link": LINK}},
        {"communication": {**RING, "parameters": 1e9}},
    ],
    "link_without_bandwidth": [
        {"communication": {**RING, "link": {"latency_us": 10}}},
        {"communication": {**HIERARCHICAL, "intra_link": {"latency_us": 10}}},
    ],
    "half_a_window": [
        {"communication": {**RING, "link": {**LINK, "window_bytes": 1e6}}},
        {"communication": {**HIERARCHICAL, "intra_link": {**LINK, "window_bytes": 1e6}}},
    ],
    "no_whole_nodes_to_exchange": [{"communication": HIERARCHICAL, "num_gpus": 63}],
    "not_a_measured_curve": [
        {"communication": {**MEASURED, "sizes_bytes": [1e9, 1e6]}},
        {"communication": {**MEASURED, "times_ms": [1, 10, 100]}},
    ],
    "beyond_measured_sizes": [{"communication": {**MEASURED, "message_bytes": 1e10}}],
    "measured_with_other_ranks": [{"communication": {**MEASURED, "measured_num_ranks": 8}}],
    "exchange_takes_too_long": [
        {
            "communication": {
                **RING,
                "message_bytes": 1e18,
                "link": {"bandwidth_gigabytes_per_s": 1e-9},
            }
        }
    ],
    "no_halves_to_exchange": [{"overlap": FSDP}],
    "too_many_rank_steps": [
        {**MANY, "synchronization": STALE},
        {**MANY, "synchronization": {**LOCAL, "steps": 1000, "overlap_steps": 1}},
    ],
}

NEARLY: list[dict[str, Any]] = [
    {
        "synchronization": {**LOCAL},
        "variability": {"persistent": GAMMA, "episodes": EPISODES},
        "num_spare_gpus": 2,
    },
    {"synchronization": STALE, "variability": {"episodes": EPISODES}, "num_spare_gpus": 2},
    {"overlap": {"kind": "buckets", "bucket_shares": [1, 2]}},
    {"overlap": {"kind": "buckets", "bucket_bytes": 1e5}, "communication": RING},
    {"overlap": {"kind": "fsdp", "num_layers": 1, "prefetch_layers": 5}, "communication": RING},
    {"overlap": BUCKETS, "synchronization": LOCAL},
    {"overlap": BUCKETS, "synchronization": {"kind": "bounded_staleness", "staleness": 0}},
    {"overlap": BUCKETS, "synchronization": BACKUP},
    {"synchronization": {**LOCAL, "fragments": 10}},
    {"synchronization": {**LOCAL, "fragments": 5, "overlap_steps": 1}},
    {"communication": {**RING, "link": {**LINK, "round_trip_ms": 100, "window_bytes": 1e6}}},
    {"communication": {**MEASURED, "message_bytes": 1e9, "measured_num_ranks": 64}},
    {"communication": HIERARCHICAL},
    {"synchronization": STALE, "num_gpus": 10_000_000},
    {**MANY, "synchronization": LOCAL},
]
