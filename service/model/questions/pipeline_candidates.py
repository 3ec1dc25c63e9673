"""Pipelines that could do a scenario's job on its GPUs: what is tried by a search, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from service.model.fields import Scenario
from service.model.parts.pipeline import MAX_STAGES, Pipeline, ScheduleName
from service.model.pipeline import SCHEDULES

Keep = Literal["microbatch_size", "microbatches"]
CHUNKS = (1, 2, 4)
SCHEDULE_NAMES: tuple[ScheduleName, ...] = get_args(ScheduleName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What to try; None: default ones.

    stages        powers of two that divide the GPUs, and the scenario's own number
    microbatches  those that `keep` says: of the scenario's size, or as many as in the scenario
    chunks        1, 2, 4 and the scenario's own, where a schedule takes them
    schedules     all; of one stage, that has nothing to order, 1f1b
    """

    stages: tuple[int, ...] | None = None
    microbatches: tuple[int, ...] | None = None
    chunks: tuple[int, ...] | None = None
    schedules: tuple[ScheduleName, ...] | None = None
    keep: Keep = "microbatch_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Sizes to try; the number of micro-batches may not be whole."""

    schedule: ScheduleName
    stages: int
    microbatches: Fraction
    chunks: int


def candidates_of(scenario: Scenario, space: Space) -> Iterator[Candidate]:
    """By stages, micro-batches, schedule and chunks; ValueError without a pipeline."""
    now = scenario.pipeline
    if now is None:
        raise ValueError("a scenario without a pipeline says nothing of micro-batches and stages")
    for stages in dict.fromkeys(space.stages or _stages(scenario, now)):
        schedules = space.schedules or (SCHEDULE_NAMES if stages > 1 else ("1f1b",))
        for microbatches in _microbatches(now, space, stages):
            for schedule in dict.fromkeys(schedules):
                for chunks in dict.fromkeys(space.chunks or _chunks(now, schedule)):
                    yield Candidate(
                        schedule=schedule,
                        stages=stages,
                        microbatches=microbatches,
                        chunks=chunks,
                    )


def _stages(scenario: Scenario, now: Pipeline) -> list[int]:
    used = scenario.num_gpus - scenario.num_evicted_gpus
    groups = used // scenario.tensor_parallel_size
    powers = (1 << power for power in range(MAX_STAGES.bit_length()))
    return sorted({now.stages, *(stages for stages in powers if groups % stages == 0)})


def _microbatches(now: Pipeline, space: Space, stages: int) -> list[Fraction]:
    if space.microbatches is not None:
        return [Fraction(number) for number in dict.fromkeys(space.microbatches)]
    # The samples of a replica go with its GPUs, and so does the number of micro-batches.
    share = Fraction(stages, now.stages) if space.keep == "microbatch_size" else Fraction(1)
    return [now.microbatches * share]


def _chunks(now: Pipeline, name: ScheduleName) -> list[int]:
    schedule = SCHEDULES[name]
    most = schedule.max_chunks
    return [
        chunks
        for chunks in sorted({*CHUNKS, now.chunks_per_stage})
        if chunks >= schedule.min_chunks and (most is None or chunks <= most)
    ]
