"""Plans that were compiled already, and the largest size that is compiled at all."""

from service.model.pipeline import SCHEDULES
from service.model.pipeline.plan import Plan, compiled

MAX_CHUNK_MICROBATCHES = 262_144
"""Largest P M V: a plan of it takes some 100 megabytes and a quarter of a second."""

MAX_HELD_OPERATIONS = 400_000
"""Of all plans held: those used longest ago go first, the last one always stays."""

_HELD: dict[tuple[str, int, int, int], Plan] = {}
"""The plan used last at the end. Threads may find a plan gone: they compile it again."""


def plan_of(schedule: str, stages: int, microbatches: int, chunks: int) -> Plan:
    """The plan of a schedule; ValueError with the rule if there is none of this size."""
    _check_size(stages, microbatches, chunks)
    chosen = SCHEDULES[schedule]
    if not chosen.is_valid(stages, microbatches, chunks):
        near = " or ".join(
            f"{size.stages} stages, {size.microbatches} micro-batches, {size.chunks} chunks"
            for size in chosen.nearest(stages, microbatches, chunks)
        )
        raise ValueError(
            f"{stages} stages, {microbatches} micro-batches, {chunks} chunks: {chosen.rule}; "
            f"nearest: {near}"
        )
    key = (schedule, stages, microbatches, chunks)
    plan = _HELD.pop(key, None) or compiled(chosen, stages, microbatches, chunks)
    _HELD[key] = plan
    _drop_oldest()
    return plan


def _drop_oldest() -> None:
    """Until the rest is small enough, or is the last plan alone."""
    held = list(_HELD.items())
    number = sum(plan.num_operations for _, plan in held)
    for key, plan in held[:-1]:
        if number <= MAX_HELD_OPERATIONS:
            break
        _HELD.pop(key, None)
        number -= plan.num_operations


def _check_size(stages: int, microbatches: int, chunks: int) -> None:
    """Before any memory is taken."""
    number = stages * microbatches * chunks
    if number > MAX_CHUNK_MICROBATCHES:
        raise ValueError(
            f"{stages} stages x {microbatches} micro-batches x {chunks} chunks are {number}, more "
            f"than {MAX_CHUNK_MICROBATCHES}"
        )
