"""Pipelines: what each rank does in a published schedule, and how long that takes."""

from service.model.pipeline.all_forwards_first import GPIPE, LOOPED_BFS, NAIVE
from service.model.pipeline.dualpipe import DUALPIPE, DUALPIPE_V
from service.model.pipeline.memory_bounded import ZB_H1, ZB_H2
from service.model.pipeline.one_forward_one_backward import INTERLEAVED, ONE_FORWARD_ONE_BACKWARD
from service.model.pipeline.schedule import Schedule
from service.model.pipeline.zbv import ZBV
from service.model.pipeline.zero_bubble import INTERLEAVED_ZB1P, ZB1P

SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        NAIVE,
        GPIPE,
        ONE_FORWARD_ONE_BACKWARD,
        INTERLEAVED,
        LOOPED_BFS,
        ZB1P,
        ZB_H1,
        ZB_H2,
        ZBV,
        INTERLEAVED_ZB1P,
        DUALPIPE,
        DUALPIPE_V,
    )
}
