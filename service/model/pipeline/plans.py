"""Plans that were compiled already, and the largest size that is compiled at all."""

from service.model.pipeline import SCHEDULES
from service.model.pipeline.closed_peaks import closed_peak
from service.model.pipeline.plan import Plan, compiled
from service.model.pipeline.schedule import Schedule, Sizes

MAX_CHUNK_MICROBATCHES = 262_144
"""Largest P M V: a plan takes up to 90 megabytes, 190 while it is made, and some seconds."""

MAX_HELD_OPERATIONS = 400_000
"""Of all plans held, some 120 bytes each: those used longest ago go first, the last one stays."""

_HELD: dict[tuple[str, int, int, int], Plan] = {}
"""The plan used last at the end. Threads may find a plan gone: they compile it again."""


def plan_of(schedule: str, stages: int, microbatches: int, chunks: int) -> Plan:
    """The plan of a schedule; ValueError with the rule if there is none of this size."""
    chosen = SCHEDULES[schedule]
    _check(chosen, stages, microbatches, chunks)
    key = (schedule, stages, microbatches, chunks)
    plan = _HELD.pop(key, None) or compiled(chosen, stages, microbatches, chunks)
    _HELD[key] = plan
    _drop_oldest()
    return plan


def peak_of(schedule: str, stages: int, microbatches: int, chunks: int) -> float:
    """Micro-batches in flight at the stage with most, by formula; ValueError as `plan_of`."""
    _check(SCHEDULES[schedule], stages, microbatches, chunks)
    return closed_peak(schedule, stages, microbatches, chunks)


def _check(chosen: Schedule, stages: int, microbatches: int, chunks: int) -> None:
    """Before any memory is taken."""
    sizes = Sizes(stages, microbatches, chunks)
    number = stages * microbatches * chunks
    if number > MAX_CHUNK_MICROBATCHES:
        raise ValueError(f"{sizes.said(' x ')} are {number}, more than {MAX_CHUNK_MICROBATCHES}")
    if not chosen.is_valid(stages, microbatches, chunks):
        near = " or ".join(size.said() for size in chosen.nearest(*sizes))
        raise ValueError(f"{sizes.said()}: {chosen.rule}; nearest: {near}")


def _drop_oldest() -> None:
    """Until the rest is small enough, or is the last plan alone."""
    held = list(_HELD.items())
    number = sum(plan.num_operations for _, plan in held)
    for key, plan in held[:-1]:
        if number <= MAX_HELD_OPERATIONS:
            break
        _HELD.pop(key, None)
        number -= plan.num_operations
