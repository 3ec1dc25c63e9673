"""Remedies of a pipeline: what they change, why they do not apply, and what they give by hand."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.parts.pipeline import ScheduleName
from service.model.remedy.does_not_apply import DoesNotApplyError
from service.model.remedy.pipeline_overrides import INTERLEAVED, NO_PIPELINE
from service.model.remedy.remedies import applicable, change_of
from service.model.remedy.remedy_gains import evaluated
from service.model.remedy.remedy_grid import remedy_grid
from service.model.remedy.remedy_kinds import KINDS, OF_PIPELINE, Kind, Remedy, RemedyRequest
from tests.model.piped_scenarios import STEP, piped, put, result, step_ms

UNEQUAL = [2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
COMPUTE, ALLREDUCE = 300.0, 80.0


def after(scenario: Scenario, kind: Kind, **setting: Any) -> Scenario:
    return change_of(scenario, Remedy(kind=kind, **setting)).scenario


def reason(scenario: Scenario, kind: Kind, **setting: Any) -> str:
    """Why it does not apply: by itself, or by a rule."""
    with pytest.raises(DoesNotApplyError) as caught:
        change_of(scenario, Remedy(kind=kind, **setting))
    return str(caught.value)


def gpipe_ms(stages: int, microbatches: int, c: float = 0.0) -> float:
    """(M + P - 1)(f + b) + 2 (P - 1) c of a step of 300 ms, and the exchange; all by hand."""
    each = COMPUTE / microbatches
    return (microbatches + stages - 1) * each + 2 * (stages - 1) * c + ALLREDUCE


@pytest.mark.parametrize("times", [{}, {"forward_ms": 25 / 4, "backward_ms": 50 / 4}])
def test_more_micro_batches_shorten_the_bubble(times: dict[str, float]) -> None:
    given = {"compute_ms": None} if times else {}
    base = piped({"schedule": "gpipe", "p2p_ms": 0.5, **times}, **given)
    assert step_ms(base) == pytest.approx(gpipe_ms(8, 16, 0.5), rel=1e-12)
    for setting, number in (({"microbatch_factor": 4}, 64), ({"microbatches": 24}, 24)):
        there = after(base, "more_microbatches", **setting)
        assert there.pipeline is not None
        assert there.pipeline.microbatches == number
        assert step_ms(there) == pytest.approx(gpipe_ms(8, number, 0.5), rel=1e-12)
    assert reason(base, "more_microbatches", microbatches=16) == (
        "16 is no more than the 16 micro-batches of now"
    )


@pytest.mark.parametrize("kind", ["more_microbatches", "interleave_stages"])
def test_one_stage_has_no_bubble_to_be_made_smaller(kind: Kind) -> None:
    size = {"chunks_per_stage": 2} if kind == "interleave_stages" else {"microbatch_factor": 2}
    assert reason(piped({"stages": 1}), kind, **size) == "a pipeline of one stage has no bubble"
    # Small operations average their noise, even of one stage.
    noisy = piped({"stages": 1, "per_op_jitter": {"kind": "normal", "cv": 0.1}})
    assert after(noisy, kind, **size).pipeline != noisy.pipeline


def test_remedies_say_what_they_come_to() -> None:
    base = piped()
    default = change_of(base, Remedy(kind="fewer_stages"))
    assert default.remedy.setting == {"stages": 4}
    requests = [RemedyRequest(kind="fewer_stages", stages=stages) for stages in (None, (4,))]
    assert [change.remedy for change in applicable(base, requests)[0]] == [default.remedy]
    folded = change_of(base, Remedy(kind="change_schedule", schedule="zbv"))
    assert folded.remedy.setting == {"schedule": "zbv", "chunks_per_stage": 2}
    again = change_of(base, folded.remedy)
    assert (again.overrides, again.remedy) == (folded.overrides, folded.remedy)
    plain = change_of(base, Remedy(kind="change_schedule", schedule="zb_h1"))
    assert plain.remedy.setting == {"schedule": "zb_h1"}


def test_naive_with_more_micro_batches_is_gpipe() -> None:
    base = piped({"schedule": "naive", "microbatches": 1})
    assert step_ms(base) == pytest.approx(8 * COMPUTE + ALLREDUCE, rel=1e-12)
    change = change_of(base, Remedy(kind="more_microbatches", microbatch_factor=4))
    assert change.overrides == {"pipeline.schedule": "gpipe", "pipeline.microbatches": 4}
    assert step_ms(change.scenario) == pytest.approx(gpipe_ms(8, 4), rel=1e-12)
    # The founding page: of 8 GPUs 1 works, with 4 micro-batches 2.91 of them do.
    busy = [result(each, "busy_gpus_mean") / 8 for each in (base, change.scenario)]
    assert busy == pytest.approx([1.0, 32 / 11], rel=1e-9)


@pytest.mark.parametrize("schedule", INTERLEAVED)
def test_interleaving_divides_the_ramp(schedule: ScheduleName) -> None:
    chunks = 1 if INTERLEAVED[schedule] != schedule else 2
    base = piped({"schedule": schedule, "chunks_per_stage": chunks})
    change = change_of(base, Remedy(kind="interleave_stages", chunks_per_stage=4))
    pipeline = change.scenario.pipeline
    assert pipeline is not None
    assert (pipeline.schedule, pipeline.chunks_per_stage) == (INTERLEAVED[schedule], 4)
    assert "compute_ms" not in change.overrides
    if INTERLEAVED[schedule] in {"looped_bfs", "interleaved_1f1b"}:
        # M (f + b) + (P - 1)(f + b) / V
        by_hand = COMPUTE + 7 * COMPUTE / 16 / 4 + ALLREDUCE
        assert step_ms(change.scenario) == pytest.approx(by_hand, rel=1e-9)
    assert "no more than" in reason(base, "interleave_stages", chunks_per_stage=chunks)


def test_schedules_without_an_interleaved_form() -> None:
    base = piped({"schedule": "zb_h1"})
    assert reason(base, "interleave_stages", chunks_per_stage=2) == (
        "zb_h1 has no interleaved form: gpipe, 1f1b, zb1p have one"
    )


def test_another_schedule_keeps_the_chunks_unless_it_takes_others() -> None:
    base = piped()
    for schedule, chunks in (("zb_h1", 1), ("zbv", 2), ("dualpipe", 1), ("interleaved_1f1b", 2)):
        pipeline = after(base, "change_schedule", schedule=schedule).pipeline
        assert pipeline is not None
        assert (pipeline.schedule, pipeline.chunks_per_stage) == (schedule, chunks)
        assert (pipeline.stages, pipeline.microbatches) == (8, 16)
    assert "is 1f1b already" in reason(base, "change_schedule", schedule="1f1b")
    assert "no other schedule of 8 stages and 16 micro-batches" in reason(base, "change_schedule")


def test_a_schedule_that_takes_no_such_sizes_is_refused_by_its_rule() -> None:
    base = piped({"stages": 8, "microbatches": 12})
    request = RemedyRequest(kind="change_schedule", schedules=("dualpipe", "naive"))
    changes, left_out = applicable(base, [request])
    assert changes == []
    assert [each.setting for each in left_out] == [{"schedule": "dualpipe"}, {"schedule": "naive"}]
    assert "12 micro-batches" in left_out[0].reason


def test_equal_work_for_all_stages() -> None:
    base = piped({"schedule": "gpipe", "stage_weights": UNEQUAL})
    # sum f + (M - 1) max f and likewise backwards: 9 units of work, the largest of 2.
    unit = COMPUTE * 8 / 9 / 16
    assert step_ms(base) == pytest.approx((9 + 15 * 2) * unit + ALLREDUCE, rel=1e-12)
    change = change_of(base, Remedy(kind="rebalance_stages"))
    assert change.overrides == {"pipeline.stage_weights": None}
    assert step_ms(change.scenario) == pytest.approx(gpipe_ms(8, 16), rel=1e-12)


def test_equal_times_where_times_are_given() -> None:
    times = {"forward_ms": [10.0, *[5.0] * 7], "backward_ms": 12.0}
    base = piped({"schedule": "gpipe", **times}, compute_ms=None)
    change = change_of(base, Remedy(kind="rebalance_stages"))
    assert change.overrides == {"pipeline.forward_ms": 45 / 8, "pipeline.backward_ms": 12.0}
    by_hand = 23 * (45 / 8 + 12) + ALLREDUCE
    assert step_ms(change.scenario) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    "given", [{}, {"stage_weights": [3.0] * 8}, {"forward_ms": [5.0] * 8, "backward_ms": 12.0}]
)
def test_nothing_to_rebalance(given: dict[str, Any]) -> None:
    alone = {"compute_ms": None} if "forward_ms" in given else {}
    assert reason(piped(given, **alone), "rebalance_stages") == (
        "all stages have equal work already"
    )


def test_a_stage_of_slow_gpus_gets_less_work() -> None:
    # All 8 replicas' stage 3 at half speed: with shares by speed all stages take equally long.
    slow = {"slow_groups": [{"count": 8, "speed_fraction": 0.5, "placement": 3}]}
    base = piped({"schedule": "gpipe"}, **slow)
    change = change_of(base, Remedy(kind="rebalance_stages"))
    weights = change.overrides["pipeline.stage_weights"]
    assert weights == pytest.approx([16 / 15] * 3 + [8 / 15] + [16 / 15] * 4)
    by_hand = 23 * (COMPUTE / 16) * 16 / 15 + ALLREDUCE
    assert step_ms(change.scenario) == pytest.approx(by_hand, rel=1e-6)
    assert "in proportion to the speed" in reason(change.scenario, "rebalance_stages")
    # Of times that are given as well; and one slow GPU of the stage is no reason.
    times = {"forward_ms": 5.0, "backward_ms": 10.0}
    given = piped({"schedule": "gpipe", **times}, compute_ms=None, **slow)
    found = change_of(given, Remedy(kind="rebalance_stages")).overrides
    assert found["pipeline.forward_ms"] == pytest.approx([5 * weight for weight in weights])
    one = piped(slow_groups=[{"count": 1, "speed_fraction": 0.5, "placement": 3}])
    assert reason(one, "rebalance_stages") == "all stages have equal work already"


def test_fewer_stages_more_replicas() -> None:
    base = piped({"schedule": "gpipe"})
    for setting, stages in (({}, 4), ({"stages": 2}, 2)):
        there = after(base, "fewer_stages", **setting)
        assert there.pipeline is not None
        assert (there.pipeline.stages, there.pipeline.microbatches) == (stages, 2 * stages)
        # Micro-batches of the same size at a stage of more layers: f P / P'.
        by_hand = (2 * stages + stages - 1) * COMPUTE / (2 * stages) + ALLREDUCE
        assert step_ms(there) == pytest.approx(by_hand, rel=1e-12)
        assert result(there, "num_data_parallel_ranks") == 64 / stages


def test_messages_grow_with_the_layers_of_a_stage_where_parameters_are_given() -> None:
    link = {"latency_us": 0, "bandwidth_gigabytes_per_s": 100}
    ring = {"kind": "ring", "parameters": 8e9, "link": link}
    base = piped({"schedule": "gpipe"}, communication=ring)
    # 2 (n - 1) / n S / B with n = 64 / P ranks and S = 2 bytes of 1 / P of the parameters.
    for scenario, stages in ((base, 8), (after(base, "fewer_stages"), 4)):
        ranks, number = 64 / stages, 16e9 / stages
        exchange_ms = 2 * (ranks - 1) / ranks * number / 100e9 * 1e3
        assert result(scenario, "communication_ms") == pytest.approx(exchange_ms, rel=1e-9)


def test_why_there_cannot_be_fewer_stages() -> None:
    assert "no fewer than 8" in reason(piped(), "fewer_stages", stages=8)
    assert reason(piped({"stages": 1}), "fewer_stages") == "the pipeline has one stage already"
    assert "7.5 of the same size in 4, which must be whole" in reason(
        piped({"microbatches": 15}), "fewer_stages"
    )
    # Six stages leave no whole replicas of 64 GPUs: said by the rule.
    request = RemedyRequest(kind="fewer_stages", stages=(6,))
    (left_out,) = applicable(piped(), [request])[1]
    assert "no whole replicas of 6 stages" in left_out.reason


def test_nothing_of_it_without_a_pipeline() -> None:
    alone = put(piped(), {**STEP, "pipeline": None})
    for kind in OF_PIPELINE:
        assert reason(alone, kind) == NO_PIPELINE


SOURCES: dict[str, dict[str, Any]] = {
    "slow": {"slow_groups": [{"count": 3, "speed_fraction": 0.7}]},
    "placed": {"slow_groups": [{"count": 2, "speed_fraction": 0.7, "placement": 3}]},
    "persistent": {"variability": {"persistent": {"kind": "lognormal", "cv": 0.03}}},
    "replica": {"variability": {"replica": {"kind": "lognormal", "cv": 0.03}}},
    "spikes": {"variability": {"spikes": {"probability": 1e-3, "slowdown": 2}}},
    "local": {"synchronization": {"kind": "local_steps", "steps": 4}},
    "backup": {"synchronization": {"kind": "backup_workers", "count": 1}},
    "prefetch": {"load_ms": 20, "overlap": {"kind": "none", "load_prefetch": True}},
    "strong": {"scaling": {"kind": "strong", "reference_num_gpus": 32}},
    "jitter": {},
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_applies_or_says_why(name: str) -> None:
    """Whatever the scenario has: no remedy fails once it is said to apply."""
    jitter = {"per_op_jitter": {"kind": "lognormal", "cv": 0.05}} if name == "jitter" else {}
    pipeline = {"stages": 4, "microbatches": 8, **jitter}
    base = piped(pipeline, num_gpus=32 if name == "strong" else 16, draws=16, **SOURCES[name])
    changes, left_out = applicable(base)
    assert {change.remedy.kind for change in changes} | {each.kind for each in left_out} == set(
        KINDS
    )
    results, gains = evaluated(remedy_grid(base, changes), with_spread=False)
    assert (results.failure == 0).all()
    assert np.isfinite(gains.given_back).all()
    # What a remedy does is an ordinary evaluation that anybody can repeat.
    for point, change in enumerate(changes, start=1):
        if change.remedy.kind in OF_PIPELINE:
            there = put(base, change.overrides)
            alone = result(there, "step_mean_ms")
            assert results.columns["step_mean_ms"][point] == pytest.approx(alone, rel=1e-9)


def test_whole_replicas_are_evicted() -> None:
    base = piped({"stages": 4}, slow_groups=[{"count": 5, "speed_fraction": 0.7}])
    changes, _ = applicable(base, [RemedyRequest(kind="evict_worst")])
    assert [change.overrides for change in changes] == [
        {"num_evicted_gpus": count} for count in (4, 8)
    ]
    assert reason(base, "evict_worst", count=6) == (
        "replicas of 4 GPUs stay whole: evict 4 or 8, not 6"
    )
    assert "evict 4, not 1" in reason(base, "evict_worst", count=1)
    spares, _ = applicable(base, [RemedyRequest(kind="hot_spares")])
    assert [change.remedy.count for change in spares] == [1, 2, 4, 5]


def test_backup_workers_are_replicas() -> None:
    jitter = {"per_op_jitter": {"kind": "lognormal", "cv": 0.05}}
    base = piped({"stages": 2, **jitter}, num_gpus=128)
    changes, _ = applicable(base, [RemedyRequest(kind="backup_workers")])
    assert [change.remedy.count for change in changes] == [1, 2, 4]
    request = RemedyRequest(kind="backup_workers", counts=(33,))
    (left_out,) = applicable(base, [request])[1]
    assert "33 backup workers are more than half of 64 replicas" in left_out.reason


def test_work_shared_out_by_speed_scales_the_times_of_stages() -> None:
    # 32 of 64 GPUs at half speed: all take 4 / 3 as long as a nominal one would.
    slow: dict[str, Any] = {"slow_groups": [{"count": 32, "speed_fraction": 0.5}]}
    times = {"forward_ms": [5.0] * 8, "backward_ms": 10.0}
    found = change_of(piped(times, compute_ms=None, **slow), Remedy(kind="rebalance_work"))
    assert found.overrides["pipeline.forward_ms"] == pytest.approx([5 * 4 / 3] * 8)
    assert found.overrides["pipeline.backward_ms"] == pytest.approx(40 / 3)
    assert "compute_ms" not in found.overrides
    by_compute = change_of(piped(**slow), Remedy(kind="rebalance_work"))
    assert by_compute.overrides["compute_ms"] == pytest.approx(400.0)
    both = piped({"forward_ms": 6.25, "backward_ms": 12.5}, compute_ms=300, **slow)
    there = change_of(both, Remedy(kind="rebalance_work")).scenario
    # Both say the same still, else this would be refused.
    assert step_ms(put(there, {})) == pytest.approx(23 * 25 + ALLREDUCE, rel=1e-12)
    drawn = piped(**slow, variability={"persistent": {"kind": "lognormal", "cv": 0.02}})
    ratio = change_of(drawn, Remedy(kind="rebalance_work")).overrides["compute_ms"] / 300
    # E[1 / mean(1 / X)] of 64 lognormals by 20 000 clusters would agree; here to first order.
    assert ratio == pytest.approx(4 / 3, rel=2e-3)
    assert columns_of(drawn).num_points == 1
