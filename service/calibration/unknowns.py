"""What timings do not tell, and what to do about it."""

from service.calibration.findings import OverlapAudit, Unknown
from service.calibration.options import CalibrationOptions
from service.calibration.timings import Timings

_ALWAYS = (
    (
        "failures",
        "some steps of one run say nothing about how often jobs fail",
        (
            "take failures per 1 000 node-days from the job history, and the checkpoint's write "
            "time from the training log"
        ),
    ),
    (
        "variability.episodes",
        "slow periods of hours are rarer than what was recorded",
        (
            "count over some weeks how often a rank turned slow, for how long and by how much; a "
            "rank that changed during this recording is among the outliers"
        ),
    ),
    (
        "period_days",
        "the window is a choice",
        "say over how many days losses are to be counted",
    ),
    (
        "synchronization",
        "timings look alike whether ranks wait in every step or not",
        "say it if the job uses local steps, staleness or backup workers; default: every step",
    ),
    (
        "scaling",
        "one size was timed",
        "say whether compute per GPU stays (weak) or is divided (strong) at other sizes",
    ),
    (
        "rates",
        "prices are in no trace",
        "import dated rates per GPU-hour; without them results are in GPU-hours",
    ),
)


def unknowns_of(
    timings: Timings,
    options: CalibrationOptions,
    overlap: OverlapAudit | None,
    told: set[str],
) -> list[Unknown]:
    """Fields that these timings do not tell; `told` are the paths that need no more words."""
    found = [("load_ms", "no loading times in the files", "add a load_ms column to the recorder")]
    if "communication" not in told:
        found.append(_communication(timings))
    if "overlap" not in told:
        found.append(
            (
                "overlap",
                "whether communication is hidden behind compute cannot be told"
                if overlap is not None
                else "no communication and step times to tell what is hidden",
                "see the experiments of the overlap audit"
                if overlap is not None
                else "record step_ms and communication_ms, or upload traces of all ranks",
            )
        )
    if timings.load_ms is not None and options.load_is_prefetched is None:
        found.append(
            (
                "overlap.load_prefetch",
                "loading beside the step before and loading before compute look the same",
                "say load_is_prefetched",
            )
        )
    found += _of_ranks(timings, options, told)
    found += _ALWAYS
    return [
        Unknown(path=path, reason=reason, what_to_do=what)
        for path, reason, what in found
        if path not in told
    ]


def _communication(timings: Timings) -> tuple[str, str, str]:
    if timings.nccl_tests is not None:
        return (
            "communication",
            (
                "the nccl-tests curve says how long a message of each size takes, not how large "
                "yours are"
            ),
            "send it to POST /v1/collective-measurements and say message_bytes",
        )
    return (
        "communication",
        "no communication times in the files",
        "add nccl-tests output or a communication_ms column, or upload traces of all ranks",
    )


def _of_ranks(
    timings: Timings, options: CalibrationOptions, told: set[str]
) -> list[tuple[str, str, str]]:
    found = []
    if "pipeline" not in told:
        found.append(
            (
                "pipeline",
                "stages are known but not their passes and micro-batches"
                if timings.stages is not None
                else "the files name no stages",
                (
                    "upload per-operation timings, or say schedule, stages and microbatches; "
                    "stages with different times are in the table of ranks"
                ),
            )
        )
    if "variability.node" not in told:
        found.append(
            (
                "variability.node",
                "nodes with several ranks each are needed to tell a node's share from a rank's",
                "add a node column",
            )
        )
    if "variability.persistent" not in told:
        found.append(
            (
                "variability.persistent",
                "no two ranks do the same work, or their spread is too wide for the model's law",
                "record more ranks of each stage",
            )
        )
    if "variability.spikes" not in told:
        num_cells = timings.num_steps * timings.num_ranks
        found.append(
            (
                "variability.spikes",
                (
                    f"none among {num_cells} cells, so at most some {3 / num_cells:.2g} per rank "
                    "and step (95 %)"
                ),
                "record more steps if spikes matter at your size",
            )
        )
    if "variability.autocorrelation" not in told:
        found.append(
            (
                "variability.autocorrelation",
                "too few adjacent steps, or the spread is shared within lockstep groups",
                "record consecutive steps; it moves only the spread, never the expected loss",
            )
        )
    if options.tensor_parallel_size == 1 and timings.num_gpus_per_rank == 1:
        found.append(
            (
                "tensor_parallel_size",
                "each rank is taken for one GPU",
                "say tensor_parallel_size where a rank of the files is a group in lockstep",
            )
        )
    return found
