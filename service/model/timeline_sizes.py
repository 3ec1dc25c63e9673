"""How many operations a timeline shows; counted before any plan is made."""

from collections.abc import Iterator

from service.model.columns import Columns
from service.model.pipeline import SCHEDULES
from service.model.pipeline.schedule import Schedule, Sizes
from service.model.problems import InvalidScenario, Problem
from service.model.stage_sizes import SCHEDULE_NAMES, num_chunks, num_microbatches, num_stages

MAX_TIMELINE_OPERATIONS = 20_000
_WHOLE, _SPLIT = 2, 3


def num_operations(schedule: Schedule, sizes: Sizes) -> int:
    """Of all stages, at most: each chunk goes forward and back, in two parts where it is split."""
    parts = _SPLIT if schedule.splits_backward else _WHOLE
    return sizes.stages * sizes.microbatches * sizes.chunks * parts


def refuse_long(columns: Columns) -> None:
    """Raise InvalidScenario for a pipeline of one point that has too many, with nearest sizes."""
    schedule = SCHEDULES[SCHEDULE_NAMES[int(columns["pipeline.schedule"][0]) - 1]]
    numbers = (part(columns)[0] for part in (num_stages, num_microbatches, num_chunks))
    sizes = Sizes(*(int(number) for number in numbers))
    number = num_operations(schedule, sizes)
    if number <= MAX_TIMELINE_OPERATIONS:
        return
    near = " or ".join(size.said() for size in nearest_short(schedule, sizes))
    detail = (
        f"a timeline shows at most {MAX_TIMELINE_OPERATIONS} operations, these are {number}; "
        f"nearest: {near}"
    )
    problem = Problem(pointer="/pipeline", code="too_many_operations_to_show", detail=detail)
    raise InvalidScenario([problem])


def nearest_short(schedule: Schedule, sizes: Sizes) -> list[Sizes]:
    """The longest that can be shown with fewer micro-batches, and with fewer stages as well."""
    return [
        found
        for found in (
            next(_shorter(schedule, sizes._replace(stages=stages)), None)
            for stages in (sizes.stages, max(sizes.stages // 2, 1))
        )
        if found is not None
    ]


def _shorter(schedule: Schedule, sizes: Sizes) -> Iterator[Sizes]:
    """With fewer and fewer micro-batches."""
    of_one = num_operations(schedule, sizes._replace(microbatches=1))
    for microbatches in range(min(sizes.microbatches, MAX_TIMELINE_OPERATIONS // of_one), 0, -1):
        if schedule.is_valid(sizes.stages, microbatches, sizes.chunks):
            yield sizes._replace(microbatches=microbatches)
