"""Output columns that a sound point may have null."""

OF_OTHERS = frozenset(
    {
        "days_to_finish",
        "gpu_hours_for_total_steps",
        "gpu_hours_extra_for_total_steps",
        "checkpoint_interval_s",
        "failures_per_day",
        "remedy",
        "remedy_count",
        "gpu_hours_given_back",
    }
)
"""Of scenarios with total_steps, with failures, and of remedies."""
