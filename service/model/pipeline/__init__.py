"""Pipelines: what each rank does in a published schedule, and how long that takes."""

from service.model.pipeline.all_forwards_first import GPIPE, LOOPED_BFS, NAIVE
from service.model.pipeline.one_forward_one_backward import INTERLEAVED, ONE_FORWARD_ONE_BACKWARD
from service.model.pipeline.schedule import Schedule

SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (NAIVE, GPIPE, ONE_FORWARD_ONE_BACKWARD, INTERLEAVED, LOOPED_BFS)
}
