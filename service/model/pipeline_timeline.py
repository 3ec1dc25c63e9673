"""One step of one replica, operation by operation: for a picture of its pipeline.

Design page "The model", section 7.
"""

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np

from service.model.active import is_active
from service.model.columns import Columns, columns_of
from service.model.drawn_passes import DrawnStep, TooManyOperationsError
from service.model.drawn_pipelines import drawn_step, nominal_step
from service.model.fields import Scenario
from service.model.piped_fleets import beside, with_hidden_load
from service.model.pipeline.engine import Ends, ends
from service.model.pipeline.operations import FORWARD_BACKWARD, KINDS
from service.model.pipeline.peaks import peak_microbatches_in_flight
from service.model.pipeline.plan import Plan
from service.model.pipelines import are_stages_simulated
from service.model.problems import InvalidScenario, Problem
from service.model.timeline_documents import (
    Draw,
    OperationKind,
    Phase,
    PhaseKind,
    Timeline,
    TimelineOperation,
    TimelineStage,
)
from service.model.timeline_sizes import refuse_long
from service.model.waiting import waits_every_step


def timeline_of(
    scenario: Scenario, *, draw: Draw | None = None, replica: int | None = None
) -> Timeline:
    """The step as `draw` says, by default drawn where anything differs or varies.

    By default of the replica that the step waits for. Raises InvalidScenario for a scenario
    without a pipeline or with too many operations; with the pointers `/replica` and `/draw` for a
    replica that is not there, and for so many varying operations that the slowest is not found.
    """
    columns = columns_of(scenario)
    if scenario.pipeline is None:
        raise _refused("/pipeline", "no_pipeline", "the scenario has no pipeline to be drawn")
    refuse_long(columns)
    chosen = draw or ("drawn" if _differs(columns) else "nominal")
    step = drawn_step(scenario) if chosen == "drawn" else nominal_step(columns)
    if replica is not None and replica >= step.num_replicas:
        detail = f"replica {replica}, but there are {step.num_replicas}, counted from 0"
        raise _refused("/replica", "no_such_replica", detail)
    slowest_ms = None
    try:
        slowest = step.slowest()
        slowest_ms = slowest.makespan_ms
        replica = slowest.replica if replica is None else replica
    except TooManyOperationsError as error:
        if replica is None:
            detail = f"{error}, so the slowest replica is not known: name a replica"
            raise _refused("/draw", "too_many_drawn_operations", detail) from error
    return _document(step, chosen, replica, slowest_ms)


def _refused(pointer: str, code: str, detail: str) -> InvalidScenario:
    return InvalidScenario([Problem(pointer=pointer, code=code, detail=detail)])


def _differs(columns: Columns) -> bool:
    """Whether a drawn step is another than the nominal one."""
    varies = are_stages_simulated(columns) | is_active(columns, "replica")
    return bool((varies | is_active(columns, "common"))[0])


def _document(step: DrawnStep, draw: Draw, replica: int, slowest_ms: float | None) -> Timeline:
    plan, times = step.plan, step.times
    factor = step.stage_factors()[replica]
    jitter = step.operation_factors(replica)
    found = ends(
        plan,
        times.forward,
        times.backward,
        weight_fraction=times.weight_fraction,
        p2p=times.p2p,
        factor=factor[:, np.newaxis] if jitter is None else None,
        jitter=jitter,
    )
    makespan = float(found.ends.max())
    phases = list(_phases(step.columns, makespan, slowest_ms))
    begin = next(phase.start_ms for phase in phases if phase.kind == "pass")
    gpus = step.slowest_gpus(replica).tolist()
    stages = list(_stages(plan, found, zip(factor.tolist(), gpus, strict=True), begin))
    busy = sum(stage.busy_ms for stage in stages)
    return Timeline(
        draw=draw,
        replica=replica,
        num_replicas=step.num_replicas,
        schedule=plan.schedule,
        num_stages=plan.stages,
        microbatches=plan.microbatches,
        chunks_per_stage=plan.chunks,
        makespan_ms=makespan,
        bubble_fraction=max(1 - busy / (plan.stages * makespan), 0.0),
        busy_stages_mean=busy / makespan,
        slowest_makespan_ms=slowest_ms if waits_every_step(step.columns)[0] else None,
        step_ms=_step_ms(step.columns, slowest_ms),
        phases=phases,
        stages=stages,
    )


def _step_ms(columns: Columns, slowest_ms: float | None) -> float | None:
    """None where it is not known, or no single step has a length."""
    if slowest_ms is None or not waits_every_step(columns)[0]:
        return None
    return float(with_hidden_load(columns, np.array([slowest_ms]))[0])


def _phases(columns: Columns, makespan: float, slowest_ms: float | None) -> Iterator[Phase]:
    """Those that take time, one after the other; a replica nobody waits for goes its own way."""
    around = beside(columns)
    exchanged, hidden = float(around.waited[0]), float(around.hidden[0])
    load = float(columns["load_ms"][0])
    parts: list[tuple[PhaseKind, float]] = [("pass", makespan)]
    if slowest_ms is not None and waits_every_step(columns)[0]:
        # What is longer than all that hides it comes first.
        load += max(hidden - slowest_ms - exchanged, 0.0) - hidden
        parts += [("wait", max(slowest_ms - makespan, 0.0)), ("exchange", exchanged)]
    at = 0.0
    for kind, length in [("load", load), *parts]:
        if length > 0:
            yield Phase(kind=kind, start_ms=at, end_ms=at + length)
            at += length


def _stages(
    plan: Plan, found: Ends, slowest: Iterable[tuple[float, int]], begin: float
) -> Iterator[TimelineStage]:
    """`slowest` are the factor and the number of each stage's slowest GPU."""
    starts, stops = found.starts[:, 0], found.ends[:, 0]
    peaks = peak_microbatches_in_flight(plan).tolist()
    makespan = float(stops.max())
    for stage, (factor, gpu) in enumerate(slowest):
        own = np.flatnonzero(plan.stage == stage)
        busy = float((stops[own] - starts[own]).sum())
        yield TimelineStage(
            stage=stage,
            factor=factor,
            slowest_gpu=gpu,
            busy_ms=busy,
            idle_ms=max(makespan - busy, 0.0),
            peak_microbatches_in_flight=peaks[stage],
            operations=[
                _operation(plan, operation, begin + starts[operation], begin + stops[operation])
                for operation in own.tolist()
            ],
        )


def _operation(plan: Plan, operation: int, start: float, stop: float) -> TimelineOperation:
    is_pair = plan.kind[operation] == FORWARD_BACKWARD
    return TimelineOperation(
        kind=cast("OperationKind", KINDS[plan.kind[operation]]),
        chunk=int(plan.chunk[operation]),
        microbatch=int(plan.microbatch[operation]),
        backward_chunk=int(plan.partner_chunk[operation]) if is_pair else None,
        backward_microbatch=int(plan.partner_microbatch[operation]) if is_pair else None,
        start_ms=float(start),
        end_ms=float(stop),
    )
