"""The output columns: name, unit, kind and sentence. The only list of them in the product."""

from typing import Literal

from msgspec import Struct

Kind = Literal["float64", "int64", "bool", "enum"]

METHODS = ("closed_form", "quadrature", "monte_carlo", "recursion")

REMEDIES = (
    "replace_slow_gpus",
    "evict_worst",
    "hot_spares",
    "faster_detection",
    "rebalance_work",
    "backup_workers",
    "balance_data",
    "checkpoint_optimal",
    "overlap_buckets",
    "prefetch_load",
    "local_steps",
    "delayed_update",
    "hierarchical_collective",
    "compress_gradients",
    "more_microbatches",
    "interleave_stages",
    "change_schedule",
    "rebalance_stages",
    "fewer_stages",
)
"""Kinds of remedies; appended to, never reordered: stored columns hold positions."""


COLLECTIVES = (
    "fixed",
    "ring",
    "tree",
    "hierarchical",
    "transfer",
    "nccl_ring",
    "nccl_tree",
    "measured",
)
"""Ways of an exchange; appended to, never reordered: stored columns hold positions."""


class Column(Struct, frozen=True, kw_only=True):
    """One output column. `labels` are the values of an enum, stored as their position."""

    name: str
    unit: str
    sentence: str
    kind: Kind = "float64"
    labels: tuple[str, ...] = ()


def _ms(name: str, sentence: str) -> Column:
    return Column(name=name, unit="ms", sentence=sentence)


def _fraction(name: str, sentence: str) -> Column:
    return Column(name=name, unit="", sentence=sentence)


def _gpu_hours(name: str, sentence: str) -> Column:
    return Column(name=f"gpu_hours_{name}", unit="GPU-hours", sentence=sentence)


_ATTRIBUTION = (
    _gpu_hours("useful", "The share of the window spent on nominal compute."),
    _gpu_hours("spares", "Paid for hot spares that stand by."),
    _gpu_hours(
        "backup_workers",
        "Of GPUs that a step does not wait for: their share less what it shortens steps by; "
        "negative where it pays.",
    ),
    _gpu_hours("failures", "Lost to failures, restarts and checkpoints."),
    _gpu_hours("episodes", "Lost to slow periods of single GPUs."),
    _gpu_hours("transient", "Lost to variability from step to step: waiting for an unlucky GPU."),
    _gpu_hours("spikes", "Lost to rare slow steps of single GPUs."),
    _gpu_hours("replica", "Lost to variability from step to step between replicas: their data."),
    _gpu_hours("common", "Lost to variability that all GPUs share."),
    _gpu_hours("persistent", "Lost to GPUs that differ for good."),
    _gpu_hours("node", "Lost to nodes that differ for good."),
    _gpu_hours("slow_groups", "Lost to persistently slow GPUs: everybody waits for them."),
    _gpu_hours("communication", "Spent on exposed communication."),
    _gpu_hours("load", "Spent on exposed data loading."),
)
_EXTRA_STEPS = _gpu_hours(
    "extra_steps",
    "Spent on the extra steps that you say local steps or staleness cost; none is assumed.",
)

_OF_PIPELINE = (
    _gpu_hours("pipeline_bubble", "Lost to stages that wait while a pipeline fills and drains."),
    _gpu_hours("pipeline_imbalance", "Lost to stages of a pipeline that have unequal work."),
    _gpu_hours("pipeline_p2p", "Lost to handing on from one stage of a pipeline to the next."),
)

ATTRIBUTION_COLUMNS = tuple(column.name for column in (*_ATTRIBUTION, _EXTRA_STEPS, *_OF_PIPELINE))
"""These, and only these, sum to `gpu_hours_available`."""

_REDUCIBLE = (
    _gpu_hours(
        "reducible_by_eviction",
        "Lost to slow groups, persistent and node variability and episodes: what replacing GPUs, "
        "or noticing sooner, can give back.",
    ),
    _gpu_hours(
        "reducible_by_waiting",
        "Lost to transient variability and spikes: what waiting for each other less often can "
        "give back.",
    ),
    _gpu_hours("irreducible", "The rest of what is lost against nominal speed."),
)

_SPREAD = (
    _gpu_hours("lost_p10", "One cluster in ten loses less over the window."),
    _gpu_hours("lost_p50", "Every second cluster loses less over the window."),
    _gpu_hours("lost_p90", "Nine clusters in ten lose less over the window."),
    _gpu_hours(
        "lost_cluster_mean",
        "Mean over clusters of their losses; below the pooled figure where clusters differ.",
    ),
    _gpu_hours("lost_sd", "Standard deviation of the window's loss."),
    _gpu_hours("lost_se", "Standard error of gpu_hours_lost by sampling; 0 where exact."),
    _gpu_hours("lost_p10_se", "Standard error of gpu_hours_lost_p10; 0 where exact."),
    _gpu_hours("lost_p50_se", "Standard error of gpu_hours_lost_p50; 0 where exact."),
    _gpu_hours("lost_p90_se", "Standard error of gpu_hours_lost_p90; 0 where exact."),
    _gpu_hours("lost_cluster_mean_se", "Standard error of gpu_hours_lost_cluster_mean."),
    _fraction("efficiency_fraction_p10", "Nine clusters in ten are more efficient."),
    _fraction("efficiency_fraction_p50", "Every second cluster is more efficient."),
    _fraction("efficiency_fraction_p90", "One cluster in ten is more efficient."),
)

_WORK = (
    Column(
        name="days_to_finish",
        unit="days",
        sentence="Fixed work: until total_steps are done, failures included.",
    ),
    _gpu_hours("for_total_steps", "Fixed work: held until total_steps are done."),
    _gpu_hours(
        "extra_for_total_steps",
        "Fixed work: beyond what total_steps take at the ideal step. Unbounded, unlike the loss "
        "of a window.",
    ),
    _gpu_hours("per_1000_steps", "Held for a thousand steps of work, failures included."),
)

_REMEDY = (
    Column(
        name="remedy",
        unit="",
        sentence="Which remedy the point tries; null where it is an ordinary point.",
        kind="enum",
        labels=REMEDIES,
    ),
    Column(
        name="remedy_count",
        unit="",
        sentence="GPUs that the remedy replaces, evicts, keeps as spares or does not wait for; "
        "1 where it is one measure for the whole job.",
        kind="int64",
    ),
    _gpu_hours(
        "given_back",
        "What the remedy takes off the loss of the point without remedies, over the loss window; "
        "its own GPU-hours are paid from it.",
    ),
)

_COMMUNICATION = (
    _ms("communication_ms", "Of a step, nothing hidden: what the ideal step counts."),
    _ms(
        "communication_latency_ms",
        "Of it, what messages cost whatever their size; null where the parts are not known.",
    ),
    _ms("communication_bandwidth_ms", "Of it, what grows with the bytes of a message."),
    _ms(
        "exposed_communication_ms",
        "What communication makes a step longer by; where only a simulation tells how long steps "
        "take, what it does at nominal speed.",
    ),
    _ms("exposed_load_ms", "What loading makes a step longer by."),
    _fraction(
        "hidden_communication_fraction",
        "Share of what is exchanged, and of an update's delay, that is hidden: 1 - exposed / both.",
    ),
    _ms("last_bucket_ms", "What can never be hidden: the last bucket, or the last scatter."),
    Column(
        name="best_num_buckets",
        unit="",
        sentence="Number of equal buckets with the shortest step where the slowest GPU takes what "
        "is expected of it; null where latency is not known.",
        kind="int64",
    ),
    _ms(
        "overlap_gain_ms",
        "What overlap takes off a step against one thing after the other; negative where it hurts.",
    ),
    _fraction(
        "compute_to_communication_ratio", "Nominal compute over communication, nothing hidden."
    ),
    _fraction(
        "idle_knee_ratio",
        "Compute over communication below which GPUs begin to idle for more than what can never "
        "be hidden; null without overlap.",
    ),
    Column(
        name="collective_algorithm",
        unit="",
        sentence="How gradients are exchanged; of auto, the fastest.",
        kind="enum",
        labels=COLLECTIVES,
    ),
    Column(
        name="num_data_parallel_ranks",
        unit="",
        sentence="Ranks among which gradients are exchanged.",
        kind="int64",
    ),
    _fraction(
        "break_even_extra_steps_fraction",
        "Throughput over that of waiting in every step, less 1: with more extra steps than this "
        "for the same progress, local steps or staleness do not pay. Null where every step waits.",
    ),
    _gpu_hours("communication_latency", "Of gpu_hours_communication, exposed latency."),
    _gpu_hours("communication_bandwidth", "Of gpu_hours_communication, exposed bandwidth."),
)

_PIPELINE = (
    _ms(
        "pipeline_makespan_ms",
        "Expected pass of one replica through its pipeline, from the first operation to the last; "
        "null without a pipeline, as all of these.",
    ),
    _ms("pipeline_makespan_ms_p50", "Half of the passes of a replica are shorter."),
    _ms("pipeline_makespan_ms_p95", "95 % of the passes of a replica are shorter."),
    _ms("pipeline_makespan_ms_se", "Standard error of pipeline_makespan_ms; 0 where exact."),
    _fraction("bubble_fraction", "Idle time of all stages over their total time in a pass."),
    _fraction("bubble_to_ideal_ratio", "Idle time of all stages over their busy time in a pass."),
    Column(
        name="busy_gpus_mean",
        unit="GPUs",
        sentence="Of the GPUs that take part, how many work on average during a pass.",
    ),
    _ms("pipeline_idle_ms", "Idle time of a stage in a pass, mean over stages: the sum of four."),
    _ms("pipeline_idle_fill_ms", "Of it, filling and draining, were all stages equal."),
    _ms(
        "pipeline_idle_imbalance_ms",
        "Of it, more because stages have unequal work or GPUs that are slow for good; negative "
        "where that shortens bubbles.",
    ),
    _ms("pipeline_idle_p2p_ms", "Of it, more because handing on takes time."),
    _ms(
        "pipeline_idle_jitter_ms",
        "Of it, more because of what varies from step to step; below 0 only by sampling error.",
    ),
    Column(
        name="peak_microbatches_in_flight",
        unit="",
        sentence="Micro-batches whose activations a stage holds at once, at the stage with most.",
    ),
)
PIPELINE_CAUSES = tuple(column.name for column in _OF_PIPELINE)
PIPELINE_COLUMNS = tuple(column.name for column in _PIPELINE)

COMMUNICATION_COLUMNS = tuple(column.name for column in _COMMUNICATION)

COLUMNS: tuple[Column, ...] = (
    _ms("ideal_step_ms", "Load + compute + communication at nominal speed, nobody waits."),
    _ms("step_mean_ms", "Expected step: everybody waits for the slowest GPU."),
    _ms(
        "slowest_compute_mean_ms",
        "Expected compute time of the slowest GPU; with a pipeline, the slowest replica's pass.",
    ),
    _ms("step_p50_ms", "Half of the steps are shorter."),
    _ms("step_p95_ms", "95 % of the steps are shorter."),
    _ms("step_p99_ms", "99 % of the steps are shorter."),
    _fraction("efficiency_fraction", "Ideal step over expected step, times the time ratio."),
    _fraction("useful_compute_fraction", "Nominal compute over expected step."),
    _fraction(
        "displayed_utilization_fraction",
        "What a utilization gauge shows: kernels are resident while they wait.",
    ),
    _fraction(
        "time_ratio_fraction",
        "Share of the time left for steps by failures, restarts and checkpoints.",
    ),
    _gpu_hours("available_per_day", "24 hours of every GPU held."),
    _gpu_hours("lost_per_day", "Available per day times (1 - efficiency)."),
    _gpu_hours("available", "Every GPU held, over the loss window."),
    _gpu_hours("lost", "Available times (1 - efficiency), over the loss window."),
    _gpu_hours("not_useful", "Available minus useful, over the loss window."),
    _gpu_hours(
        "above_nominal",
        "Lost against the same communication, overlap and synchronization at nominal speed.",
    ),
    *_ATTRIBUTION,
    *_REDUCIBLE,
    *_SPREAD,
    *_WORK,
    Column(
        name="checkpoint_interval_s",
        unit="s",
        sentence="Work between checkpoints: as given, or the optimum.",
    ),
    Column(name="failures_per_day", unit="", sentence="Failures that stop the job, per day of it."),
    Column(
        name="num_independent_ranks",
        unit="",
        sentence="Independent draws of the finest source: fewer than GPUs where groups move as "
        "one.",
        kind="int64",
    ),
    Column(
        name="is_extrapolated",
        unit="",
        sentence="Whether the slowest rank lies beyond the tail that was observed.",
        kind="bool",
    ),
    Column(
        name="method",
        unit="",
        sentence="How the expected step was found.",
        kind="enum",
        labels=METHODS,
    ),
    Column(
        name="spread_method",
        unit="",
        sentence="How the spread was found.",
        kind="enum",
        labels=METHODS,
    ),
    *_REMEDY,
    *_COMMUNICATION,
    _EXTRA_STEPS,
    *_OF_PIPELINE,
    *_PIPELINE,
)

COLUMN_NAMES = tuple(column.name for column in COLUMNS)
