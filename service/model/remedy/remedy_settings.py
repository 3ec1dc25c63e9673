"""What a remedy can be tried with: bounds and descriptions of the settings of a request."""

from typing import Annotated

from msgspec import Meta

from service.model.fields import MAX_STANDING_BY
from service.model.parts.bounds import TimeMs
from service.model.parts.communication import Link
from service.model.parts.overlap import MAX_BUCKETS
from service.model.parts.pipeline import MAX_CHUNKS, MAX_MICROBATCHES, MAX_STAGES, ScheduleName
from service.model.parts.synchronization import MAX_LOCAL_STEPS

MAX_SETTINGS = 12
"""Settings that one kind may be tried with."""

Counts = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_STANDING_BY)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="evict_worst, hot_spares, backup_workers: how many GPUs more than now; default "
        "1, 2, 4, … up to one GPU in 16 and at most 64, and as many as are slow. With a pipeline "
        "backup workers are whole replicas, and GPUs are evicted by whole replicas.",
        examples=[[1, 2, 4]],
    ),
]
Hours = Annotated[
    tuple[Annotated[float, Meta(ge=0, le=1e6)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="faster_detection: mean length of an episode, hours; default a half and a "
        "quarter of the scenario's.",
    ),
]
Fractions = Annotated[
    tuple[Annotated[float, Meta(ge=0, lt=1)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="balance_data: fraction of the replica variability's cv that is left; default "
        "a half, and nothing.",
    ),
]
BucketCounts = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_BUCKETS)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="overlap_buckets: numbers of equal buckets; default 8, 25, and the best number "
        "where the latency of the communication is known.",
        examples=[[8, 25]],
    ),
]
Contention = Annotated[
    float,
    Meta(
        ge=0,
        le=10,
        description="overlap_buckets: how much slower compute runs while communication is busy; "
        "default the scenario's, else 0.",
    ),
]
Steps = Annotated[
    tuple[Annotated[int, Meta(ge=2, le=MAX_LOCAL_STEPS)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="local_steps: steps between two exchanges, for which all GPUs wait; default "
        "10, 100 and 500.",
        examples=[[10, 100]],
    ),
]
ExtraSteps = Annotated[
    float,
    Meta(
        ge=0,
        le=1e3,
        description="local_steps, delayed_update: your own penalty, how many more steps the same "
        "progress takes; default the scenario's, else 0. None is built in.",
    ),
]
IntraLink = Annotated[
    Link,
    Meta(
        description="hierarchical_collective: the link between the GPUs of a node; default the "
        "scenario's."
    ),
]
Ratios = Annotated[
    tuple[Annotated[float, Meta(gt=1, le=1e9)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="compress_gradients: how many times smaller messages are than now; default 2 "
        "and 4.",
        examples=[[2, 4]],
    ),
]
CompressionMs = Annotated[
    TimeMs,
    Meta(
        description="compress_gradients: to compress and to restore a message, on the GPU, ms; "
        "default the scenario's."
    ),
]
MicrobatchFactors = Annotated[
    tuple[Annotated[int, Meta(ge=2, le=MAX_MICROBATCHES)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="more_microbatches: how many times more, each as many times smaller; default "
        "2 and 4 where no counts are given either.",
        examples=[[2, 4]],
    ),
]
MicrobatchCounts = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_MICROBATCHES)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="more_microbatches: numbers of micro-batches of a replica and step.",
    ),
]
ChunkCounts = Annotated[
    tuple[Annotated[int, Meta(ge=2, le=MAX_CHUNKS)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="interleave_stages: model chunks of a stage; default 2 and 4, or twice as many "
        "as now.",
        examples=[[2, 4]],
    ),
]
Schedules = Annotated[
    tuple[ScheduleName, ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="change_schedule: which to try; default the one that takes the shortest pass "
        "at nominal speed with these sizes, of those that hold parameters once.",
        examples=[["1f1b", "zb_h1"]],
    ),
]
StageCounts = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_STAGES)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="fewer_stages: stages of a replica; default half as many.",
        examples=[[4]],
    ),
]
