from collections import Counter
from typing import Any

import numpy as np
import pytest

from service.model import drawn_passes, pipeline_timeline
from service.model.draws import draw_ranks
from service.model.fields import Scenario
from service.model.pipeline_timeline import timeline_of
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario
from service.model.timeline_documents import Timeline

SIZES = {
    "naive": (4, 1, 1),
    "gpipe": (4, 6, 1),
    "1f1b": (4, 6, 1),
    "interleaved_1f1b": (4, 8, 2),
    "looped_bfs": (4, 6, 2),
    "zb1p": (4, 6, 1),
    "zb_h1": (4, 6, 1),
    "zb_h2": (4, 8, 1),
    "zbv": (4, 8, 2),
    "interleaved_zb1p": (4, 8, 2),
    "dualpipe": (4, 8, 1),
    "dualpipev": (4, 8, 2),
}


def scenario(
    schedule: str = "1f1b", sizes: tuple[int, int, int] = (2, 2, 1), /, **fields: Any
) -> Scenario:
    stages, microbatches, chunks = sizes
    pipeline = {
        "schedule": schedule,
        "stages": stages,
        "microbatches": microbatches,
        "chunks_per_stage": chunks,
        "forward_ms": 1,
        "backward_ms": 2,
        **fields.pop("pipeline", {}),
    }
    return decode_scenario({"num_gpus": stages, "pipeline": pipeline} | fields)


def spans(timeline: Timeline) -> list[list[tuple[str, int, float, float]]]:
    return [
        [(part.kind, part.microbatch, part.start_ms, part.end_ms) for part in stage.operations]
        for stage in timeline.stages
    ]


def phases(timeline: Timeline) -> list[tuple[str, float, float]]:
    return [(phase.kind, phase.start_ms, phase.end_ms) for phase in timeline.phases]


def faults(asked: Scenario, **options: Any) -> tuple[str, str, str]:
    with pytest.raises(InvalidScenario) as raised:
        timeline_of(asked, **options)
    (fault,) = raised.value.problems
    return fault.pointer, fault.code, fault.detail


def test_gpipe_of_two_stages_by_hand() -> None:
    found = timeline_of(scenario("gpipe"))
    assert spans(found) == [
        [("forward", 0, 0, 1), ("forward", 1, 1, 2), ("backward", 0, 5, 7), ("backward", 1, 7, 9)],
        [("forward", 0, 1, 2), ("forward", 1, 2, 3), ("backward", 0, 3, 5), ("backward", 1, 5, 7)],
    ]
    assert (found.makespan_ms, found.step_ms, found.slowest_makespan_ms) == (9, 9, 9)
    assert found.bubble_fraction == pytest.approx(1 / 3)
    assert found.busy_stages_mean == pytest.approx(4 / 3)
    assert [(stage.busy_ms, stage.idle_ms) for stage in found.stages] == [(6, 3), (6, 3)]
    assert [stage.peak_microbatches_in_flight for stage in found.stages] == [2, 2]
    assert phases(found) == [("pass", 0, 9)]
    assert (found.draw, found.replica, found.num_replicas) == ("nominal", 0, 1)


def test_one_forward_one_backward_by_hand_with_hand_over() -> None:
    asked = scenario(
        load_ms=10,
        communication={"kind": "fixed", "allreduce_ms": 4},
        pipeline={"p2p_ms": 0.5},
    )
    found = timeline_of(asked)
    at = 10
    assert spans(found) == [
        [
            ("forward", 0, at, at + 1),
            ("forward", 1, at + 1, at + 2),
            ("backward", 0, at + 5, at + 7),
            ("backward", 1, at + 8, at + 10),
        ],
        [
            ("forward", 0, at + 1.5, at + 2.5),
            ("backward", 0, at + 2.5, at + 4.5),
            ("forward", 1, at + 4.5, at + 5.5),
            ("backward", 1, at + 5.5, at + 7.5),
        ],
    ]
    assert phases(found) == [("load", 0, 10), ("pass", 10, 20), ("exchange", 20, 24)]
    assert found.step_ms == 24
    assert [stage.peak_microbatches_in_flight for stage in found.stages] == [2, 1]


def test_a_slow_gpu_is_drawn_where_it_sits_and_others_wait() -> None:
    slow = [{"count": 1, "speed_fraction": 0.5, "placement": 1}]
    asked = scenario(num_gpus=6, slow_groups=slow, load_ms=1)
    found = timeline_of(asked)
    # Stage 1 takes 2 and 4 ms: 1 + 2 x (2 + 4) + 2.
    assert (found.draw, found.replica, found.num_replicas) == ("drawn", 0, 3)
    assert [stage.factor for stage in found.stages] == [1, 2]
    assert [stage.slowest_gpu for stage in found.stages] == [0, 1]
    assert found.makespan_ms == 15
    other = timeline_of(asked, replica=2)
    assert phases(other) == [("load", 0, 1), ("pass", 1, 10), ("wait", 10, 16)]
    assert (other.makespan_ms, other.slowest_makespan_ms, other.step_ms) == (9, 15, 16)
    nominal = timeline_of(asked, draw="nominal")
    assert (nominal.makespan_ms, nominal.step_ms) == (9, 10)
    assert phases(timeline_of(asked, draw="nominal", replica=1)) == phases(nominal)


@pytest.mark.parametrize("schedule", SIZES)
def test_operations_of_a_stage_do_not_overlap_and_are_all_there(schedule: str) -> None:
    stages, microbatches, chunks = SIZES[schedule]
    asked = scenario(
        schedule,
        SIZES[schedule],
        variability={"transient": {"kind": "normal", "cv": 0.1}},
        pipeline={"p2p_ms": 0.3, "per_op_jitter": {"kind": "gamma", "cv": 0.2}},
        load_ms=2,
        seed=3,
    )
    found = timeline_of(asked)
    last = 0.0
    forwards: Counter[tuple[int, int, int]] = Counter()
    backwards = forwards.copy()
    weights = forwards.copy()
    for stage in found.stages:
        assert all(
            before.end_ms <= after.start_ms * (1 + 1e-12)
            for before, after in zip(stage.operations, stage.operations[1:], strict=False)
        )
        assert stage.operations[0].start_ms >= 2
        last = max(last, stage.operations[-1].end_ms)
        busy = sum(part.end_ms - part.start_ms for part in stage.operations)
        assert stage.busy_ms == pytest.approx(busy)
        assert stage.busy_ms + stage.idle_ms == pytest.approx(found.makespan_ms)
        for part in stage.operations:
            where = (stage.stage, part.chunk, part.microbatch)
            if part.kind == "forward_backward":
                assert part.backward_chunk is not None
                assert part.backward_microbatch is not None
                backwards[stage.stage, part.backward_chunk, part.backward_microbatch] += 1
                forwards[where] += 1
                continue
            assert part.backward_chunk is part.backward_microbatch is None
            goes = {"forward": [forwards], "backward": [backwards, weights]}
            goes |= {"backward_input": [backwards], "backward_weight": [weights]}
            for counts in goes[part.kind]:
                counts[where] += 1
    assert last == pytest.approx(2 + found.makespan_ms)
    assert set(forwards.values()) == set(backwards.values()) == {1}
    assert forwards.keys() == backwards.keys()
    assert len(forwards) == stages * microbatches * chunks
    assert max(weights.values()) == 1
    assert found.bubble_fraction == pytest.approx(
        1 - sum(stage.busy_ms for stage in found.stages) / (stages * found.makespan_ms)
    )


def test_the_drawn_step_is_that_of_the_ranks() -> None:
    asked = scenario(
        num_gpus=16,
        tensor_parallel_size=2,
        variability={"transient": {"kind": "lognormal", "cv": 0.1}},
        pipeline={"per_op_jitter": {"kind": "gamma", "cv": 0.2}},
        overlap={"kind": "none", "load_prefetch": True},
        load_ms=30,
        communication={"kind": "fixed", "allreduce_ms": 4},
    )
    ranks, found = draw_ranks(asked), timeline_of(asked)
    assert ranks.slowest_replica == found.replica
    assert ranks.slowest_makespan_ms == found.makespan_ms
    assert ranks.step_ms == found.step_ms == 30
    # The load is longer than what hides it, and what is left comes first.
    (load, shown, exchange) = phases(found)
    assert load[2] == pytest.approx(30 - found.makespan_ms - 4)
    assert shown[2] - shown[1] == pytest.approx(found.makespan_ms)
    assert exchange[2] == pytest.approx(30)
    shorter = timeline_of(
        scenario(overlap={"kind": "none", "load_prefetch": True}, load_ms=3), draw="nominal"
    )
    assert phases(shorter) == [("pass", 0, 9)]


def test_what_all_share_is_drawn() -> None:
    for source in ("common", "replica"):
        asked = scenario(variability={source: {"kind": "normal", "cv": 0.1}}, seed=5)
        found = timeline_of(asked)
        assert found.draw == "drawn"
        factor = found.stages[0].factor
        assert found.makespan_ms == pytest.approx(9 * factor)
        assert abs(factor - 1) > 0.001


def test_steps_between_exchanges_have_no_length_of_their_own() -> None:
    local = {"kind": "local_steps", "steps": 4}
    found = timeline_of(
        scenario(
            num_gpus=4,
            synchronization=local,
            load_ms=2,
            communication={"kind": "fixed", "allreduce_ms": 4},
        )
    )
    assert (found.step_ms, found.slowest_makespan_ms) == (None, None)
    assert phases(found) == [("load", 0, 2), ("pass", 2, 11)]


def test_a_replica_that_nobody_waits_for_goes_its_own_way() -> None:
    slow = [{"count": 1, "speed_fraction": 0.5, "placement": 0}]
    backup = {"kind": "backup_workers", "count": 1}
    asked = scenario(num_gpus=6, slow_groups=slow, synchronization=backup)
    assert timeline_of(asked).makespan_ms == 9
    slowest = timeline_of(asked, replica=0)
    assert slowest.makespan_ms > 9
    assert phases(slowest) == [("pass", 0, slowest.makespan_ms)]
    assert slowest.step_ms == 9


def test_what_cannot_be_shown_is_refused() -> None:
    plain = decode_scenario({"num_gpus": 2, "compute_ms": 1})
    assert faults(plain)[:2] == ("/pipeline", "no_pipeline")
    pointer, code, detail = faults(scenario(num_gpus=4), replica=2)
    assert (pointer, code) == ("/replica", "no_such_replica")
    assert detail == "replica 2, but there are 2, counted from 0"
    pointer, code, detail = faults(scenario("1f1b", (8, 2000, 1)))
    assert (pointer, code) == ("/pipeline", "too_many_operations_to_show")
    assert "at most 20000 operations, these are 32000" in detail
    assert "8 stages, 1250 micro-batches, 1 chunk" in detail


def test_too_much_jitter_needs_a_replica_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_passes, "MAX_DRAWN_OPERATIONS", 500)
    asked = scenario(num_gpus=4, pipeline={"per_op_jitter": {"kind": "gamma", "cv": 0.2}})
    pointer, code, detail = faults(asked)
    assert (pointer, code) == ("/draw", "too_many_drawn_operations")
    assert "name a replica" in detail
    found = timeline_of(asked, replica=1)
    assert (found.replica, found.step_ms, found.slowest_makespan_ms) == (1, None, None)
    assert phases(found) == [("pass", 0, found.makespan_ms)]
    assert np.isclose(found.makespan_ms, 9, rtol=0.3)


def test_no_plan_is_made_of_what_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = scenario("1f1b", (64, 4096, 1))
    made: list[Any] = []
    for name in ("drawn_step", "nominal_step"):
        monkeypatch.setattr(pipeline_timeline, name, made.append)
    assert faults(asked)[1] == "too_many_operations_to_show"
    assert not made
