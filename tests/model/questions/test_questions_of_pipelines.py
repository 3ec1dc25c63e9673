"""Sensitivities and inverse questions of scenarios with pipelines, against single evaluations."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.model.columns import Columns, columns_of
from service.model.fields import Scenario
from service.model.plan_lengths import plan_steps
from service.model.problems import InvalidScenario
from service.model.questions import solving_domain
from service.model.questions.moved_columns import check_path, step_of_whole, value_of
from service.model.questions.sampling import (
    MOST_PLAN_STEPS,
    MOST_RANK_STEPS,
    refuse_long_recursions,
)
from service.model.questions.sensitivity import Sensitivities, Sensitivity, sensitivity
from service.model.questions.solving import Question, Seek, Solution, Target, solve
from service.model.questions.solving_domain import moves_plans
from service.model.rules import failures
from service.model.simulated_points import rank_steps
from tests.model.piped_scenarios import STEP, piped, put, result

UNEQUAL = [2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
TIMES: dict[str, Any] = {"forward_ms": 6.25, "backward_ms": 12.5}
SLOW = [{"count": 2, "speed_fraction": 0.7, "placement": 3}]
HIERARCHICAL = {
    "kind": "hierarchical",
    "message_bytes": 1e9,
    "link": {"latency_us": 10, "bandwidth_gigabytes_per_s": 50},
    "intra_link": {"latency_us": 1, "bandwidth_gigabytes_per_s": 450},
}


def ask(scenario: Scenario, path: str, seek: Seek, column: str, **bounds: Any) -> Solution:
    at_least = "at_least" in bounds
    threshold = bounds.pop("at_least" if at_least else "at_most")
    target = Target(column=column, threshold=threshold, at_least=at_least)
    return solve(scenario, Question(path=path, seek=seek, target=target, **bounds))


def moved(found: Sensitivities, path: str) -> Sensitivity:
    (row,) = (row for row in found.moved if row.path == path)
    return row


def reason(found: Sensitivities, path: str) -> tuple[str, str]:
    (row,) = (row for row in found.unmoved if row.path == path)
    return row.code, row.detail


VARIED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"p2p_ms": 0.5}, {}),
    ({"p2p_ms": 0.5, **TIMES}, {"compute_ms": None}),
    ({"p2p_ms": 0.5}, {"variability": {"replica": {"kind": "lognormal", "cv": 0.05}}}),
    ({"stage_weights": UNEQUAL}, {"slow_groups": SLOW}),
    ({"schedule": "interleaved_1f1b", "chunks_per_stage": 2}, {"load_ms": 20}),
]


@pytest.mark.parametrize(("pipeline", "changes"), VARIED)
def test_every_number_is_moved_as_if_it_were_so_alone(
    pipeline: dict[str, Any], changes: dict[str, Any]
) -> None:
    base = piped(pipeline, **changes)
    found = sensitivity(base, {})
    assert found.lost == pytest.approx(result(base, "gpu_hours_lost"), rel=1e-9)
    ends = [
        (row.path, end) for row in found.moved for end in (row.low, row.high) if end is not None
    ]
    for path, end in ends:
        if end.reason is None:
            alone = result(put(base, {path: end.value}), "gpu_hours_lost")
            assert end.lost == pytest.approx(alone, rel=1e-9), path
        else:
            with pytest.raises(InvalidScenario):
                put(base, {path: end.value})
    paths = {row.path for row in found.moved}
    assert {"pipeline.microbatches", "num_gpus"} <= paths
    assert ("pipeline.p2p_ms" in paths) == ("p2p_ms" in pipeline)
    assert not {row.path for row in found.unmoved} & paths


def test_stages_move_to_the_next_that_leave_whole_replicas() -> None:
    row = moved(sensitivity(piped(), {}), "pipeline.stages")
    assert row.low is not None
    assert row.high is not None
    assert (row.low.value, row.high.value) == (4, 16)
    few = moved(sensitivity(piped({"stages": 2}, num_gpus=2), {}), "pipeline.stages")
    assert few.low is not None
    assert (few.low.value, few.high) == (1, None)
    asked = moved(sensitivity(piped(), {"pipeline.stages": (2, 32)}), "pipeline.stages")
    assert asked.low is not None
    assert asked.high is not None
    assert (asked.low.value, asked.high.value) == (2, 32)


def test_lists_stay_as_they_are_and_say_so() -> None:
    lists = {"forward_ms": [6.25] * 8, "backward_ms": 12.5}
    found = sensitivity(piped(lists, compute_ms=None, slow_groups=SLOW), {})
    code, detail = reason(found, "pipeline.forward_ms")
    assert (code, detail) == ("not_numeric", "it is a list of 8 numbers, one for each stage")
    assert moved(found, "pipeline.backward_ms").change > 0
    assert reason(found, "pipeline.stages")[0] == "stage_times_wrong_length"
    paths = [row.path for row in found.moved] + [row.path for row in found.unmoved]
    assert not any("placement" in path for path in paths)
    weighed = sensitivity(piped({"stage_weights": UNEQUAL}), {})
    assert reason(weighed, "pipeline.stage_weights")[0] == "not_numeric"


def test_times_beside_compute_move_together_or_not_at_all() -> None:
    found = sensitivity(piped(TIMES), {})
    for path in ("compute_ms", "pipeline.forward_ms", "pipeline.microbatches"):
        assert reason(found, path)[0] == "compute_not_of_stages"


def test_which_stage_is_no_number_to_look_for() -> None:
    base = piped(slow_groups=SLOW)
    with pytest.raises(InvalidScenario) as caught:
        check_path(base, "slow_groups.0.placement", pointer="/unknown/path")
    assert caught.value.problems[0].code == "not_numeric"


@pytest.mark.parametrize(
    ("pipeline", "changes", "path", "step"),
    [
        ({}, {}, "num_gpus", 8),
        ({}, {"tensor_parallel_size": 2}, "num_gpus", 16),
        ({"stages": 12}, {"num_gpus": 96, "communication": HIERARCHICAL}, "num_gpus", 24),
        ({}, {}, "num_evicted_gpus", 8),
        ({}, {}, "num_spare_gpus", 1),
        ({}, {}, "pipeline.microbatches", 1),
        ({}, {}, "pipeline.p2p_ms", 0),
    ],
)
def test_gpus_come_in_whole_replicas(
    pipeline: dict[str, Any], changes: dict[str, Any], path: str, step: int
) -> None:
    assert step_of_whole(path, piped(pipeline, **changes)) == step
    alone = put(piped(), {**STEP, "pipeline": None})
    assert step_of_whole("num_evicted_gpus", alone) == 1


def test_the_number_of_all_stages_is_one_number() -> None:
    one = columns_of(piped({"forward_ms": [6.25] * 8, "backward_ms": 12.5}))
    assert value_of(one, "pipeline.forward_ms") is None
    assert value_of(one, "pipeline.backward_ms") == 12.5
    assert value_of(columns_of(piped()), "pipeline.backward_ms") is None


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb1p"])
def test_the_fewest_micro_batches_for_a_bubble(schedule: str) -> None:
    base = piped({"schedule": schedule, "microbatches": 4})
    found = ask(
        base, "pipeline.microbatches", "smallest", "bubble_fraction", at_most=0.1, maximum=256
    )
    # (P - 1) / (M + P - 1) <= 0.1, or with F = I = W a third of the ramp: (P - 1) / (3 M + P - 1).
    expected = 63 if schedule != "zb1p" else 21
    assert found.at is not None
    assert found.at.value == expected
    assert found.neighbor is not None
    assert found.neighbor.value == expected - 1
    for place in (found.at, found.neighbor):
        alone = result(put(base, {"pipeline.microbatches": place.value}), "bubble_fraction")
        assert place.target == pytest.approx(alone, rel=1e-9)


def test_an_answer_that_round_off_misses_is_one() -> None:
    base = piped({"schedule": "dualpipe", "stages": 8, "microbatches": 32})
    column = "bubble_fraction"
    there = result(put(base, {"pipeline.microbatches": 18}), column)
    # Exactly 0.1, but for the last digit.
    assert there == pytest.approx(0.1, rel=1e-14)
    found = ask(base, "pipeline.microbatches", "smallest", column, at_most=0.1, maximum=256)
    assert found.at is not None
    assert found.at.value == 18
    near = np.array([1 - 2e-12, 1 - 9e-13, 1, 1 + 9e-13, 1 + 2e-12, np.nan]) * 0.1
    most, least = (Target(column=column, threshold=0.1, at_least=side) for side in (False, True))
    assert most.holds(near, 1e-12).tolist() == [True, True, True, True, False, False]
    assert most.holds(near).tolist() == [True, True, True, False, False, False]
    assert least.holds(near, 1e-12).tolist() == [False, True, True, True, True, False]
    assert least.holds(near).tolist() == [False, False, True, True, True, False]


def test_only_micro_batches_that_the_schedule_takes() -> None:
    base = piped({"schedule": "interleaved_1f1b", "chunks_per_stage": 2})
    found = ask(
        base, "pipeline.microbatches", "smallest", "bubble_fraction", at_most=0.1, maximum=256
    )
    # Valid are M with M mod max(1, M // 8) = 0: of these the least with 3.5 / (M + 3.5) <= 0.1.
    valid = [number for number in range(1, 64) if number % max(1, number // 8) == 0]
    assert found.at is not None
    bubbles = {
        number: result(put(base, {"pipeline.microbatches": number}), "bubble_fraction")
        for number in valid
    }
    assert found.at.value == min(number for number, bubble in bubbles.items() if bubble <= 0.1)


def test_the_most_stages_and_the_fewest_chunks() -> None:
    base = piped({"microbatches": 4})
    stages = ask(base, "pipeline.stages", "largest", "bubble_fraction", at_most=0.5)
    # (P - 1) / (P + 3) <= 0.5: of 1, 2, 4, 8, 16, … that divide 64 GPUs.
    assert stages.at is not None
    assert (stages.at.value, stages.neighbor and stages.neighbor.value) == (4, 8)
    looped = piped({"schedule": "interleaved_1f1b", "chunks_per_stage": 2})
    chunks = ask(looped, "pipeline.chunks_per_stage", "smallest", "bubble_fraction", at_most=0.1)
    # 7 / V / (16 + 7 / V) <= 0.1
    assert chunks.at is not None
    assert chunks.at.value == 4


def test_the_longest_hand_over() -> None:
    # GPipe by hand: (M + P - 1)(f + b) + 2 (P - 1) c + 80 is at most 600 ms.
    found = ask(
        piped({"schedule": "gpipe"}), "pipeline.p2p_ms", "largest", "step_mean_ms", at_most=600
    )
    assert found.at is not None
    assert found.at.value == pytest.approx((520 - 23 * 300 / 16) / 14, rel=1e-8)


def test_the_time_of_a_stage_is_found_too() -> None:
    base = piped({"schedule": "gpipe", **TIMES}, compute_ms=None)
    found = ask(base, "pipeline.forward_ms", "largest", "step_mean_ms", at_most=600)
    assert found.at is not None
    assert found.at.value == pytest.approx(520 / 23 - 12.5, rel=1e-8)


def test_gpus_that_divide_the_micro_batches() -> None:
    strong = {"scaling": {"kind": "strong", "reference_num_gpus": 64}}
    base = piped({"microbatches": 24}, **strong)
    assert moves_plans(base, "num_gpus")
    found = ask(base, "num_gpus", "largest", "bubble_fraction", at_most=0.4)
    # 24 x 64 / N micro-batches must be whole, N of whole replicas: 7 / (M + 7) <= 0.4 is M >= 10.5.
    sizes = [size for size in range(8, 1537, 8) if 1536 % size == 0 and 1536 / size >= 10.5]
    assert found.at is not None
    assert found.at.value == max(sizes)
    assert not moves_plans(piped(), "num_gpus")
    assert not moves_plans(put(piped(), {**STEP, "pipeline": None}), "pipeline.stages")


def test_pipelines_that_take_too_long_end_the_range_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A smaller limit than that of the service, so that little is worked through.
    monkeypatch.setattr(solving_domain, "MOST_STEPS_OF_A_VALUE", 100)
    # Of unequal stages there is no formula.
    base = piped({"schedule": "zb1p", "stages": 2, "stage_weights": [1, 2]}, num_gpus=4)
    half: dict[str, Any] = {"column": "bubble_fraction", "at_most": 0.5}
    found = ask(base, "pipeline.microbatches", "largest", **half, maximum=2000)
    assert found.end is not None
    assert found.end.code == "too_long_at_once"
    # M + P and P M / 40 steps
    assert found.at is not None
    assert found.at.value == int((100 - 2) / 1.05)
    closed = piped({"stages": 2}, num_gpus=4)
    least = ask(closed, "pipeline.microbatches", "smallest", **half, minimum=1500, maximum=1600)
    assert least.at is not None
    assert least.at.value == 1500
    with pytest.raises(InvalidScenario) as caught:
        ask(base, "pipeline.microbatches", "smallest", **half, minimum=1500, maximum=1600)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/unknown/path", "too_long_at_once")


def test_stages_that_take_too_long_begin_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving_domain, "MOST_STEPS_OF_A_VALUE", 500)
    # The fewer GPUs, the more micro-batches each replica has.
    strong = {"scaling": {"kind": "strong", "reference_num_gpus": 1024}, "num_gpus": 1024}
    base = piped({"schedule": "zb1p", "microbatches": 64}, **strong)
    found = ask(base, "num_gpus", "smallest", "bubble_fraction", at_most=0.5)
    assert found.end is not None
    assert found.end.code == "too_long_at_once"
    assert found.at is not None
    # 65 536 / N micro-batches: M + 8 + M / 5 steps are at most 500 from N = 256 on.
    assert found.at.value == 256


def test_an_answer_at_once_works_through_no_more_than_it_has_time_for() -> None:
    fits = piped({"schedule": "zb1p", "microbatches": 4096})
    refuse_long_recursions(columns_of(fits))
    with pytest.raises(InvalidScenario) as caught:
        refuse_long_recursions(columns_of(fits), times=100)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/pipeline", "too_long_at_once")
    assert str(MOST_PLAN_STEPS) in problem.detail


def test_plans_and_draws_count_together() -> None:
    jitter = {"per_op_jitter": {"kind": "lognormal", "cv": 0.1}, "microbatches": 64}
    columns = columns_of(piped(jitter, num_gpus=8))
    plans = plan_steps(columns)[0] / MOST_PLAN_STEPS
    draws = rank_steps(columns)[0] / MOST_RANK_STEPS
    times = float(1 / (plans + draws))
    assert times * max(plans, draws) < 0.95
    refuse_long_recursions(columns, times * 0.999)
    with pytest.raises(InvalidScenario) as caught:
        refuse_long_recursions(columns, times * 1.001)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/draws", "too_long_at_once")


def test_sizes_that_take_too_long_are_not_held_against_the_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where operations are drawn, a rule takes a millisecond of each of 65 536 values."""
    asked: list[int] = []

    def counted(columns: Columns) -> NDArray[np.int8]:
        asked.append(columns.num_points)
        return failures(columns)

    monkeypatch.setattr(solving_domain, "failures", counted)
    monkeypatch.setattr(solving_domain, "MOST_STEPS_OF_A_VALUE", 100)
    jitter = {"per_op_jitter": {"kind": "lognormal", "cv": 0.1}}
    base = piped(jitter, num_gpus=8, draws=16)
    found = ask(base, "pipeline.microbatches", "largest", "bubble_fraction", at_least=0.01)
    # M + 8 + M / 5 steps are at most 100 up to M = 76.
    assert sum(asked) <= 2 * 76
    assert found.at is not None
    assert found.at.value == 76
    assert found.end is not None
    assert found.end.code == "too_long_at_once"
