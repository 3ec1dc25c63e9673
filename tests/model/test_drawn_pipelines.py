"""One drawn step against a simulation of its own: loops over GPUs, replicas and micro-batches."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from service.model import drawn_passes
from service.model.columns import columns_of
from service.model.drawn_passes import DrawnStep, TooManyOperationsError
from service.model.drawn_pipelines import drawn_step, nominal_step, without_slowest
from service.model.fields import Scenario
from service.model.scenario import decode_scenario
from service.model.uniforms import upper_uniforms

STAGES, MICROBATCHES, SIZE = 4, 6, 2
FORWARD, BACKWARD = [1.0, 2.0, 1.5, 1.0], [2.0, 3.0, 4.0, 2.5]
P2P = 0.25
NORMAL = {"kind": "normal", "cv": 0.1}
LOGNORMAL = {"kind": "lognormal", "cv": 0.2}


def scenario(num_replicas: int = 5, /, pipeline: Any = None, **fields: Any) -> Scenario:
    return decode_scenario(
        {
            "num_gpus": num_replicas * STAGES * SIZE,
            "tensor_parallel_size": SIZE,
            "pipeline": {
                "schedule": "1f1b",
                "stages": STAGES,
                "microbatches": MICROBATCHES,
                "forward_ms": FORWARD,
                "backward_ms": BACKWARD,
                "p2p_ms": P2P,
                **(pipeline or {}),
            },
        }
        | fields
    )


def normal(seed: int, source: int, number: int, cv: float = 0.1) -> Any:
    return stats.norm.isf(upper_uniforms(seed, source, 0, number), loc=1, scale=cv)


def lognormal(uniforms: Any, cv: float = 0.2) -> Any:
    sd = np.log1p(cv**2) ** 0.5
    return np.exp(sd * stats.norm.isf(uniforms) - sd**2 / 2)


def order(rank: int) -> list[tuple[str, int]]:
    """One forward, one backward: warm-up, then a forward before each backward while there are."""
    warm = min(STAGES - 1 - rank, MICROBATCHES)
    found = [("F", number) for number in range(warm)]
    for number in range(MICROBATCHES):
        if number + warm < MICROBATCHES:
            found.append(("F", number + warm))
        found.append(("B", number))
    return found


def simulated(factor: Any) -> float:
    """The makespan of factors (stages, operations in order), found by waiting."""
    ends: dict[tuple[int, str, int], float] = {}
    orders = [order(rank) for rank in range(STAGES)]
    place, free = [0] * STAGES, [0.0] * STAGES
    while any(place[rank] < len(orders[rank]) for rank in range(STAGES)):
        for rank in range(STAGES):
            if place[rank] == len(orders[rank]):
                continue
            kind, number = orders[rank][place[rank]]
            source = rank - 1 if kind == "F" else rank + 1
            ready = 0.0
            if 0 <= source < STAGES:
                if (source, kind, number) not in ends:
                    continue
                ready = ends[source, kind, number] + P2P
            base = FORWARD[rank] if kind == "F" else BACKWARD[rank]
            free[rank] = max(free[rank], ready) + base * factor[rank][place[rank]]
            ends[rank, kind, number] = free[rank]
            place[rank] += 1
    return max(free)


def makespans(factor: Any) -> list[float]:
    """Of replicas, by the factors of GPUs in order."""
    slowest = np.asarray(factor).reshape(-1, STAGES, SIZE).max(axis=2)
    return [simulated(np.repeat(row[:, np.newaxis], 99, axis=1)) for row in slowest]


def check(step: DrawnStep, factor: Any) -> None:
    expected = makespans(factor)
    assert step.factor == pytest.approx(factor, rel=1e-12)
    slowest = step.slowest()
    assert slowest.replica == int(np.argmax(expected))
    assert slowest.makespan_ms == pytest.approx(max(expected), rel=1e-12)
    work = MICROBATCHES * (np.array(FORWARD) + np.array(BACKWARD))
    each = np.tile(np.repeat(work, SIZE), len(expected))
    assert step.busy_ms() == pytest.approx(np.asarray(factor) * each, rel=1e-12)


def test_every_source_enters_by_its_own_numbers() -> None:
    number = 40
    whole = {
        "transient": NORMAL,
        "persistent": NORMAL,
        "node": NORMAL,
        "replica": NORMAL,
        "common": NORMAL,
        "spikes": {"probability": 0.2, "slowdown": 2},
        "episodes": {"rate_per_gpu_day": 0.2, "mean_hours": 24, "severity": 1.5},
    }
    step = drawn_step(scenario(variability=whole, seed=7))
    factor = normal(7, 1, number) * normal(7, 2, number)
    factor *= np.repeat(normal(7, 3, 5), 8) * np.repeat(normal(7, 4, 5), STAGES * SIZE)
    factor *= normal(7, 5, 1)
    factor[upper_uniforms(7, 6, 0, number) < 0.2] *= 2
    factor[upper_uniforms(7, 7, 0, number) < -np.expm1(-0.2)] *= 1.5
    check(step, factor)


def test_what_only_replicas_share_is_drawn_too() -> None:
    step = drawn_step(scenario(variability={"replica": NORMAL}, seed=3))
    check(step, np.repeat(normal(3, 4, 5), STAGES * SIZE))


def test_slow_gpus_sit_where_they_are_placed() -> None:
    groups = [
        {"count": 3, "speed_fraction": 0.5, "placement": 2},
        {"count": 2, "speed_fraction": 0.8},
        {"count": 1, "speed_fraction": 0.625, "placement": 2},
    ]
    step = drawn_step(scenario(slow_groups=groups))
    factor = np.ones((5, STAGES, SIZE))
    # Stage 2 has GPUs 4 and 5 of each replica; random ones take the first that are free.
    factor[0, 2] = 2
    factor[1, 2] = 2, 1.6
    factor[0, 0] = 1.25
    check(step, factor.ravel())
    assert step.speed[[0, 4, 13]] == pytest.approx([0.8, 0.5, 0.625])
    worst = drawn_step(
        scenario(slow_groups=[{"count": 1, "speed_fraction": 0.5, "placement": "worst"}])
    )
    stage = int(np.flatnonzero(worst.speed < 1)[0]) // SIZE
    single = np.ones((STAGES, STAGES, SIZE))
    single[range(STAGES), range(STAGES), 0] = 2
    assert stage == int(np.argmax(makespans(single)))


def test_gpus_that_stand_by_are_the_slowest_ones() -> None:
    groups = [{"count": 1, "speed_fraction": 0.5}, {"count": 1, "speed_fraction": 0.8}]
    spared = drawn_step(scenario(2, slow_groups=groups, num_spare_gpus=1))
    factor = np.ones(16)
    factor[0] = 1.25
    check(spared, factor)
    assert spared.rank.tolist() == list(range(16))
    lasting = drawn_step(scenario(2, variability={"persistent": NORMAL}, num_spare_gpus=3, seed=5))
    drawn = normal(5, 2, 19)
    # The last three that work take the places of those of the first 16 that do not.
    kept = set(np.argsort(drawn)[:16].tolist())
    last = iter(sorted(kept & {16, 17, 18}))
    working = np.array([gpu if gpu in kept else next(last) for gpu in range(16)])
    assert lasting.rank.tolist() == working.tolist()
    of_stages = working[8:].reshape(STAGES, SIZE)
    slowest = [int(max(pair, key=drawn.__getitem__)) for pair in of_stages]
    assert lasting.slowest_gpus(1).tolist() == slowest
    check(lasting, drawn[working])


def test_a_step_does_not_wait_for_backup_replicas() -> None:
    backup = {"kind": "backup_workers", "count": 2}
    step = drawn_step(scenario(variability={"transient": NORMAL}, synchronization=backup))
    expected = makespans(normal(0, 1, 40))
    third = int(np.argsort(expected)[-3])
    assert step.slowest().replica == third
    assert step.slowest().makespan_ms == pytest.approx(expected[third], rel=1e-12)


def test_most_of_many_replicas_need_no_makespan(monkeypatch: pytest.MonkeyPatch) -> None:
    step = drawn_step(scenario(300, variability={"transient": NORMAL}, seed=11))
    expected = makespans(normal(11, 1, 2400))
    monkeypatch.setattr(drawn_passes, "_FIRST_REPLICAS", 4)
    numbers: list[int] = []
    whole = DrawnStep._makespans

    def counted(self: DrawnStep, factor: Any, jitter: Any) -> Any:
        numbers.append(factor.shape[1])
        return whole(self, factor, jitter)

    monkeypatch.setattr(DrawnStep, "_makespans", counted)
    assert step.slowest().replica == int(np.argmax(expected))
    assert 0 < sum(numbers) < 150


def jitter_of(seed: int, number: int) -> Any:
    """(operations of a GPU, GPUs)."""
    starts = [place << 24 for place in range(2 * MICROBATCHES)]
    return lognormal([upper_uniforms(seed, 8, at, at + number) for at in starts])


def test_single_operations_vary_for_each_gpu() -> None:
    given = {"per_op_jitter": LOGNORMAL}
    step = drawn_step(scenario(3, given, variability={"transient": NORMAL}, seed=2))
    own = normal(2, 1, 24) * jitter_of(2, 24)
    slowest = own.T.reshape(3, STAGES, SIZE, -1).max(axis=2)
    expected = [simulated(replica) for replica in slowest]
    assert step.slowest().replica == int(np.argmax(expected))
    assert step.slowest().makespan_ms == pytest.approx(max(expected), rel=1e-12)
    work = [
        sum(
            (FORWARD if kind == "F" else BACKWARD)[gpu // SIZE % STAGES] * own[place, gpu]
            for place, (kind, _) in enumerate(order(gpu // SIZE % STAGES))
        )
        for gpu in range(24)
    ]
    assert step.busy_ms() == pytest.approx(work, rel=1e-12)
    # The operations of the plan, one after the other on each stage.
    alone = step.operation_factors(1)
    assert alone is not None
    for stage in range(STAGES):
        there = alone[step.plan.stage == stage, 0]
        assert there == pytest.approx(slowest[1, stage], rel=1e-12)


def test_jitter_is_drawn_alike_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = scenario(7, {"per_op_jitter": LOGNORMAL}, seed=4)
    whole = drawn_step(asked)
    busy, slowest = whole.busy_ms(), whole.slowest()
    monkeypatch.setattr(drawn_passes, "_AT_ONCE", 100)
    parts = drawn_step(asked)
    assert parts.slowest() == slowest
    assert parts.busy_ms().tolist() == busy.tolist()
    assert drawn_step(scenario(7, {"per_op_jitter": {**LOGNORMAL, "cv": 0}})).jitter is None


def test_too_many_operations_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_passes, "MAX_DRAWN_OPERATIONS", 3000)
    step = drawn_step(scenario(1, {"per_op_jitter": LOGNORMAL}))
    with pytest.raises(TooManyOperationsError, match="12 operations of each of 8 GPUs"):
        step.slowest()
    assert step.operation_factors(0) is not None


def test_at_nominal_speed_all_replicas_are_alike() -> None:
    slow = [{"count": 1, "speed_fraction": 0.5}]
    columns = columns_of(scenario(1000, slow_groups=slow, variability={"transient": NORMAL}))
    step = nominal_step(columns)
    slowest = step.slowest()
    assert slowest.replica == 0
    assert slowest.makespan_ms == pytest.approx(makespans(np.ones(8))[0], rel=1e-12)
    assert step.operation_factors(0) is None
    assert (step.stage_factors() == 1).all()


def test_of_equal_ranks_the_last_stand_by() -> None:
    assert without_slowest(np.array([1.0, 3.0, 2.0, 2.0]), 2).tolist() == [0, 2]
    assert without_slowest(np.ones(3), 0).tolist() == [0, 1, 2]
