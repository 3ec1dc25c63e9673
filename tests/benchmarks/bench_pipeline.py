"""Makespans of pipelines on one core, against a Python loop over operations in the same run."""

import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline import SCHEDULES
from service.model.pipeline.engine import makespans
from service.model.pipeline.plan import Plan, compiled
from service.model.pipeline.program import program_of
from tests.benchmarks.results_table import markdown_table

ROUNDS = 7
LOOP_DRAWS = 20
LOOP_GRID_DRAWS = 1
STAGES, MICROBATCHES, DRAWS = 8, 32, 1000
GRID_DRAWS = 256
GRID = [
    (name, stages, microbatches, chunks)
    for name, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2), ("zb1p", 1))
    for stages in (4, 8)
    for microbatches in (8, 16, 24, 32, 40, 48, 56, 64)
]
LARGE = ("interleaved_1f1b", 64, 512, 2)
P2P_MS = 0.1


def rows() -> list[dict[str, str]]:
    """Medians over rounds in which both sides run one after the other."""
    return [_draws(jittered=False), _draws(jittered=True), _grid(), _compile()]


def _draws(*, jittered: bool) -> dict[str, str]:
    plan = _compiled(("1f1b", STAGES, MICROBATCHES, 1))
    stage_ms = _stage_ms(plan, DRAWS)
    rng = np.random.default_rng(1)
    jitter = rng.uniform(0.9, 1.1, (plan.num_operations, DRAWS)) if jittered else None
    mine, loop = _paired(
        lambda: _makespans(plan, stage_ms, jitter),
        lambda: _one_by_one(plan, stage_ms, jitter, LOOP_DRAWS),
    )
    _check(plan, stage_ms, jitter)
    speeds = [DRAWS / seconds for seconds in mine], [LOOP_DRAWS / seconds for seconds in loop]
    what = "every operation with its own factor" if jittered else "every stage with its own times"
    return _row(
        f"1F1B, P = {STAGES}, M = {MICROBATCHES}, {DRAWS:,} draws, {what}",
        f"{median(speeds[0]):,.0f} makespans/s, "
        f"{median(speeds[0]) * plan.num_operations:.1e} operations/s",
        f"{median(speeds[1]):,.0f} makespans/s",
        speeds,
    )


def _grid() -> dict[str, str]:
    plans = [_compiled(sizes) for sizes in GRID]
    stage_ms = [_stage_ms(plan, GRID_DRAWS) for plan in plans]

    def mine() -> None:
        for plan, times in zip(plans, stage_ms, strict=True):
            _makespans(plan, times, None)

    def loop() -> None:
        for plan, times in zip(plans, stage_ms, strict=True):
            _one_by_one(plan, times, None, LOOP_GRID_DRAWS)

    of_mine, of_loop = _paired(mine, loop)
    speeds = (
        [len(GRID) * GRID_DRAWS / seconds for seconds in of_mine],
        [len(GRID) * LOOP_GRID_DRAWS / seconds for seconds in of_loop],
    )
    first = median(_seconds(lambda: [_compiled(sizes) for sizes in GRID]) for _ in range(ROUNDS))
    return _row(
        f"{len(GRID)} configurations (4 schedules, P 4 and 8, M 8 to 64) x {GRID_DRAWS} draws, "
        "compiled before",
        f"{median(speeds[0]):,.0f} makespans/s; compiling all took {1000 * first:,.0f} ms",
        f"{median(speeds[1]):,.0f} makespans/s",
        speeds,
    )


def _compile() -> dict[str, str]:
    name, stages, microbatches, chunks = LARGE
    mine, loop = _paired(lambda: _compiled(LARGE), lambda: _levels_one_by_one(LARGE), rounds=3)
    return {
        "measure": f"compile {name}, P = {stages}, M = {microbatches}, V = {chunks}: orders, "
        "dependencies, levels; against a queue in Python",
        "Trainard": f"{1000 * median(mine):,.0f} ms for {_compiled(LARGE).num_operations:,} "
        "operations",
        "other": f"{1000 * median(loop):,.0f} ms",
        "ratio": f"{median(b / a for a, b in zip(mine, loop, strict=True)):,.0f}",
        "target": "well below 1 s",
    }


def _row(
    measure: str, mine: str, other: str, speeds: tuple[list[float], list[float]]
) -> dict[str, str]:
    return {
        "measure": measure,
        "Trainard": mine,
        "other": other,
        "ratio": f"{median(a / b for a, b in zip(*speeds, strict=True)):,.0f}",
        "target": "none was set",
    }


def _compiled(sizes: tuple[str, int, int, int]) -> Plan:
    """With what the engine makes of it."""
    plan = compiled(SCHEDULES[sizes[0]], *sizes[1:])
    program_of(plan)
    return plan


def _stage_ms(plan: Plan, draws: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    forward = rng.uniform(0.9, 1.1, (plan.stages, draws))
    return forward, 2 * forward


def _makespans(plan: Plan, stage_ms: tuple[Floats, Floats], jitter: Floats | None) -> Floats:
    return makespans(
        plan,
        *stage_ms,
        weight_fraction=np.array([0.5]),
        p2p=np.array([P2P_MS]),
        jitter=jitter,
    )


def _check(plan: Plan, stage_ms: tuple[Floats, Floats], jitter: Floats | None) -> None:
    """Both sides must have done the same work."""
    mine = _makespans(plan, stage_ms, jitter)[:LOOP_DRAWS]
    np.testing.assert_allclose(mine, _one_by_one(plan, stage_ms, jitter, LOOP_DRAWS), rtol=1e-12)


def _one_by_one(
    plan: Plan, stage_ms: tuple[Floats, Floats], jitter: Floats | None, draws: int
) -> list[float]:
    """What one would write: operation after operation in an order that respects the inputs."""
    operations = list(
        zip(
            plan.kind.tolist(),
            plan.stage.tolist(),
            plan.previous.tolist(),
            plan.upstream.tolist(),
            strict=True,
        )
    )
    found = []
    for draw in range(draws):
        forward, backward = (times[:, draw].tolist() for times in stage_ms)
        factors = [1.0] * len(operations) if jitter is None else jitter[:, draw].tolist()
        times = (forward, backward, *([0.5 * time for time in backward],) * 2)
        ends: list[float] = []
        for (kind, stage, previous, upstream), factor in zip(operations, factors, strict=True):
            start = ends[previous] if previous >= 0 else 0.0
            if upstream >= 0:
                start = max(start, ends[upstream] + P2P_MS)
            ends.append(start + times[kind][stage] / plan.chunks * factor)
        found.append(max(ends))
    return found


def _levels_one_by_one(sizes: tuple[str, int, int, int]) -> int:
    """Orders as lists, inputs in a dictionary, levels by a queue of operations that are ready."""
    name, stages, microbatches, chunks = sizes
    orders = [order.tolist() for order in SCHEDULES[name].order(stages, microbatches, chunks)]
    last = stages * chunks - 1
    keys = [
        [(row[0], row[1] * stages + rank, row[2]) for row in order]
        for rank, order in enumerate(orders)
    ]
    followers: dict[Any, list[Any]] = {}
    waits: dict[Any, int] = {}
    for order in keys:
        for place, key in enumerate(order):
            kind, part, microbatch = key
            inputs = [order[place - 1]] if place else []
            if kind == 0 and part > 0:
                inputs.append((0, part - 1, microbatch))
            if kind == 1:
                inputs.append((1, part + 1, microbatch) if part < last else (0, part, microbatch))
            waits[key] = len(inputs)
            for one in inputs:
                followers.setdefault(one, []).append(key)
    level = {key: 0 for key, number in waits.items() if not number}
    ready = deque(level)
    while ready:
        key = ready.popleft()
        for follower in followers.get(key, ()):
            level[follower] = max(level.get(follower, 0), level[key] + 1)
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
    return max(level.values())


def _paired(
    mine: Callable[[], object], loop: Callable[[], object], rounds: int = ROUNDS
) -> tuple[list[float], list[float]]:
    """Seconds of both sides, round by round."""
    of_mine, of_loop = [], []
    mine()
    for _ in range(rounds):
        of_mine.append(_seconds(mine))
        of_loop.append(_seconds(loop))
    return of_mine, of_loop


def _seconds(run: Callable[[], object]) -> float:
    """Processor time: the figure is for one core, whatever else the machine is doing."""
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    print(markdown_table(rows()))
