"""Output columns that a sound point may have null."""

from service.model.results import COLUMN_NAMES, PIPELINE_COLUMNS

OF_OTHERS = frozenset(
    {
        *PIPELINE_COLUMNS,
        "days_to_finish",
        "gpu_hours_for_total_steps",
        "gpu_hours_extra_for_total_steps",
        "checkpoint_interval_s",
        "failures_per_day",
        "remedy",
        "remedy_count",
        "gpu_hours_given_back",
        "communication_latency_ms",
        "communication_bandwidth_ms",
        "gpu_hours_communication_latency",
        "gpu_hours_communication_bandwidth",
        "last_bucket_ms",
        "best_num_buckets",
        "idle_knee_ratio",
        "break_even_extra_steps_fraction",
    }
)
"""Of scenarios with total_steps, with failures, of remedies, of communication whose parts are
known, of overlap, of waiting less often and of pipelines."""

OF_COMMUNICATION = frozenset({"hidden_communication_fraction", "compute_to_communication_ratio"})
"""Of scenarios with any communication."""

OF_SPREAD = frozenset(
    name
    for name in COLUMN_NAMES
    if name.startswith(("gpu_hours_lost_p", "gpu_hours_lost_cluster", "efficiency_fraction_p"))
    and name != "gpu_hours_lost_per_day"
) | {"gpu_hours_lost_sd", "spread_method"}
"""Of windows with enough steps."""
