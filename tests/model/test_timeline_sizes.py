import pytest

from service.model.columns import Columns, columns_of
from service.model.pipeline import SCHEDULES
from service.model.pipeline.plans import plan_of
from service.model.pipeline.schedule import Sizes
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario
from service.model.timeline_sizes import (
    MAX_TIMELINE_OPERATIONS,
    nearest_short,
    num_operations,
    refuse_long,
)

SIZES = (Sizes(4, 8, 2), Sizes(4, 8, 1), Sizes(4, 1, 1))


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_plan_has_no_more_operations_than_counted(name: str) -> None:
    schedule = SCHEDULES[name]
    sizes = next(size for size in SIZES if schedule.is_valid(*size))
    plan = plan_of(name, *sizes)
    assert plan.num_operations <= num_operations(schedule, sizes)
    if name in {"naive", "gpipe", "1f1b", "interleaved_1f1b", "looped_bfs"}:
        assert plan.num_operations == num_operations(schedule, sizes)


def test_the_nearest_are_the_longest_that_fit() -> None:
    assert nearest_short(SCHEDULES["1f1b"], Sizes(8, 2000, 1)) == [
        Sizes(8, 1250, 1),
        Sizes(4, 2000, 1),
    ]
    interleaved = SCHEDULES["interleaved_1f1b"]
    for size in nearest_short(interleaved, Sizes(8, 4000, 2)):
        assert interleaved.is_valid(*size)
        assert num_operations(interleaved, size) <= MAX_TIMELINE_OPERATIONS
        longer = range(size.microbatches + 1, 2501)
        assert not any(
            interleaved.is_valid(size.stages, number, 2)
            and size.stages * number * 4 <= MAX_TIMELINE_OPERATIONS
            for number in longer
        )


def test_more_than_the_limit_is_refused_with_the_number() -> None:
    def columns(microbatches: int) -> Columns:
        pipeline = {"schedule": "zb_h1", "stages": 8, "microbatches": microbatches}
        fields = {"num_gpus": 8, "compute_ms": 1, "pipeline": pipeline}
        return columns_of(decode_scenario(fields))

    refuse_long(columns(833))
    with pytest.raises(InvalidScenario, match="these are 20016; nearest: 8 stages, 833 micro"):
        refuse_long(columns(834))


def test_nothing_may_be_short_enough() -> None:
    interleaved = SCHEDULES["interleaved_1f1b"]
    assert nearest_short(interleaved, Sizes(1024, 2048, 64)) == []
