"""Random pipelines for the engine and for the events, one lane a case."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.pipeline import SCHEDULES
from service.model.pipeline.plan import Plan
from service.model.pipeline.plans import plan_of
from tests.model.pipeline.event_pipeline import Operation, Pipeline, layout_of, nominal_ms

Floats = NDArray[np.float64]


class Cases(NamedTuple):
    """Arguments of the engine; the last axis are lanes."""

    plan: Plan
    forward: Floats
    backward: Floats
    weight_fraction: Floats
    p2p: Floats
    factor: Floats
    jitter: Floats


def random_cases(
    rng: np.random.Generator, name: str, sizes: tuple[int, int, int], lanes: int
) -> Cases:
    """Unequal stages, slow ranks, every operation with its own jitter, p2p from 0 to long."""
    plan = plan_of(name, *sizes)
    shape = sizes[0], lanes
    return Cases(
        plan=plan,
        forward=rng.uniform(0.2, 2, shape),
        backward=rng.uniform(0.2, 4, shape),
        weight_fraction=rng.uniform(0.1, 0.9, lanes),
        p2p=rng.uniform(0, 1, lanes) * rng.choice([0, 0.05, 0.3, 2], lanes),
        factor=np.where(rng.random(shape) < 0.3, rng.uniform(1, 3, shape), 1.0),
        jitter=rng.uniform(0.7, 1.5, (plan.num_operations, lanes)),
    )


def by_events(cases: Cases) -> tuple[Floats, Floats]:
    """(operations, lanes) starts and ends, in the order of the plan."""
    plan = cases.plan
    schedule = SCHEDULES[plan.schedule]
    orders = [
        [Operation(*row) for row in order.tolist()]
        for order in schedule.order(plan.stages, plan.microbatches, plan.chunks)
    ]
    pipeline = Pipeline(orders, layout_of(schedule.layout, plan.stages, plan.chunks))
    # the plan keeps the order of each rank
    places = [np.flatnonzero(plan.stage == rank) for rank in range(plan.stages)]
    found = np.full((2, *cases.jitter.shape), np.nan)
    for lane, p2p in enumerate(cases.p2p.tolist()):
        times = [
            (np.array(_nominal_ms(cases, lane, rank, order)) * cases.factor[rank, lane])
            * cases.jitter[places[rank], lane]
            for rank, order in enumerate(orders)
        ]
        for rank, spans in enumerate(pipeline.run([row.tolist() for row in times], p2p)):
            found[:, places[rank], lane] = np.array(spans).T
    return found[0], found[1]


def _nominal_ms(cases: Cases, lane: int, rank: int, order: list[Operation]) -> list[float]:
    stage_ms = {
        "forward": cases.forward[:, lane].tolist(),
        "backward": cases.backward[:, lane].tolist(),
    }
    layout, chunks = SCHEDULES[cases.plan.schedule].layout, cases.plan.chunks
    share = float(cases.weight_fraction[lane])
    return [nominal_ms(rank, operation, layout, chunks, stage_ms, share) for operation in order]
