"""Plans that were compiled already, and the largest size that is compiled at all."""

from collections import OrderedDict
from threading import Lock

from service.model.pipeline import SCHEDULES
from service.model.pipeline.plan import Plan, compiled

MAX_CHUNK_MICROBATCHES = 262_144
"""Largest P M V: a plan of it takes some 100 megabytes and a quarter of a second."""

MAX_HELD_OPERATIONS = 1_000_000
"""Of all plans held: those used longest ago go first, the last one always stays."""

Key = tuple[str, int, int, int]


class _Held:
    """Plans by key, the one used last at the end."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> Plan | None:
        with self._lock:
            if key in self._plans:
                self._plans.move_to_end(key)
            return self._plans.get(key)

    def put(self, key: Key, plan: Plan) -> None:
        with self._lock:
            self._plans[key] = plan
            self._plans.move_to_end(key)
            number = sum(held.num_operations for held in self._plans.values())
            while number > MAX_HELD_OPERATIONS and len(self._plans) > 1:
                number -= self._plans.popitem(last=False)[1].num_operations


_HELD = _Held()


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
    found = _HELD.get(key)
    if found is None:
        found = compiled(chosen, stages, microbatches, chunks)
        _HELD.put(key, found)
    return found


def _check_size(stages: int, microbatches: int, chunks: int) -> None:
    """Before any memory is taken."""
    number = stages * microbatches * chunks
    if number > MAX_CHUNK_MICROBATCHES:
        raise ValueError(
            f"{stages} stages x {microbatches} micro-batches x {chunks} chunks are {number}, more "
            f"than {MAX_CHUNK_MICROBATCHES}"
        )
