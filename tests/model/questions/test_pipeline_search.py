"""The search against every candidate alone: stated by hand, evaluated point by point."""

from functools import cache
from typing import Any

import pytest

from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate
from service.model.parts.pipeline import ScheduleName
from service.model.pipeline import SCHEDULES
from service.model.problems import InvalidScenario
from service.model.questions import pipeline_search
from service.model.questions.pipeline_candidates import Space
from service.model.questions.pipeline_found import Bounds, Found, Reasons
from service.model.questions.pipeline_search import search
from tests.model.piped_scenarios import STEP, piped, put, result

LINK = {"latency_us": 10, "bandwidth_gigabytes_per_s": 100}
RING = {"kind": "ring", "parameters": 8e9, "link": LINK}
NAMES: tuple[ScheduleName, ...] = ("gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "dualpipe")
SPACE = Space(stages=(2, 3, 8), microbatches=(4, 8, 16), chunks=(1, 2), schedules=NAMES)


def by_hand(base: Scenario, space: Space) -> dict[tuple[Any, ...], dict[str, float]]:
    """All candidates that are possible, each a scenario of its own; nothing is shared out."""
    found = {}
    now = base.pipeline
    assert now is not None
    ideal = result(base, "ideal_step_ms")
    available = result(base, "gpu_hours_available")
    held = result(base, "peak_microbatches_in_flight") / now.microbatches
    for stages in space.stages or ():
        for number in space.microbatches or ():
            for schedule in space.schedules or ():
                for chunks in space.chunks or ():
                    if base.num_gpus % stages or not SCHEDULES[schedule].is_valid(
                        stages, number, chunks
                    ):
                        continue
                    changes = {
                        "pipeline.schedule": schedule,
                        "pipeline.stages": stages,
                        "pipeline.microbatches": number,
                        "pipeline.chunks_per_stage": chunks,
                    }
                    there = columns_of(put(base, changes))
                    columns = evaluate(there, with_spread=False).columns
                    step_ms = float(columns["step_mean_ms"][0])
                    peak = float(columns["peak_microbatches_in_flight"][0])
                    twice = 2 if schedule == "dualpipe" else 1
                    found[schedule, stages, number, chunks] = {
                        "lost": available * (1 - ideal / step_ms),
                        "step_ms": step_ms,
                        "peak": peak,
                        "activations": peak / number / held,
                        "parameters": twice * now.stages / stages,
                    }
    return found


@cache
def plainly() -> dict[tuple[Any, ...], dict[str, float]]:
    """Of the scenario that most tests search for."""
    return by_hand(piped(), SPACE)


def keys(found: Found) -> list[tuple[Any, ...]]:
    return [tuple(sized.sizes) for sized in found.ranked]


@pytest.mark.parametrize("communication", [STEP["communication"], RING])
def test_all_candidates_are_evaluated_as_they_would_be_alone(communication: Any) -> None:
    base = piped({"p2p_ms": 0.5}, communication=communication)
    expected = by_hand(base, SPACE)
    found = search(base, SPACE, Bounds())
    assert set(keys(found)) == set(expected)
    losses = [sized.lost for sized in found.ranked]
    assert losses == pytest.approx(sorted(each["lost"] for each in expected.values()), rel=1e-9)
    for sized in found.ranked:
        alone = expected[tuple(sized.sizes)]
        assert sized.lost == pytest.approx(alone["lost"], rel=1e-9)
        assert sized.peak_in_flight == alone["peak"]
        assert sized.activations_ratio == pytest.approx(alone["activations"], rel=1e-12)
        assert sized.parameters_ratio == pytest.approx(alone["parameters"], rel=1e-12)
        step_ms = found.results.columns["step_mean_ms"][sized.point]
        assert step_ms == pytest.approx(alone["step_ms"], rel=1e-9)
        # What it says it did is what was done by hand.
        names = ("schedule", "stages", "microbatches", "chunks_per_stage")
        changes = {f"pipeline.{name}": of for name, of in zip(names, sized.sizes, strict=True)}
        assert put(base, sized.overrides) == put(base, changes)
        # Samples of a replica, shared out to its micro-batches, against those of the scenario.
        samples = (sized.sizes.stages / 64) / sized.sizes.microbatches
        assert sized.microbatch_size_ratio == pytest.approx(samples / ((8 / 64) / 16), rel=1e-12)
    left_out = {each.code: each.count for each in found.left_out}
    assert sum(left_out.values()) + len(expected) == found.num_candidates == 3 * 3 * 2 * 5
    # 3 stages divide no 64 GPUs; where sizes are wrong besides, the first rule is named.
    assert set(left_out) == {"no_whole_pipelines", "schedule_not_for_sizes"}
    assert left_out["no_whole_pipelines"] == 3 * 2 * 5


@pytest.mark.parametrize(
    ("bounds", "name", "most", "code"),
    [
        (Bounds(in_flight=4), "peak", 4, "too_many_microbatches_in_flight"),
        (Bounds(activations=1), "activations", 1, "too_many_activations"),
        (Bounds(parameters=2), "parameters", 2, "too_many_parameters"),
    ],
)
def test_what_a_gpu_cannot_hold_is_left_out(
    bounds: Bounds, name: str, most: float, code: str
) -> None:
    fits = {key for key, each in plainly().items() if each[name] <= most * (1 + 1e-9)}
    found = search(piped(), SPACE, bounds)
    assert set(keys(found)) == fits
    (by_memory,) = (each for each in found.left_out if each.code == code)
    assert by_memory.count == len(plainly()) - len(fits)
    assert f"at most {most} fit" in by_memory.detail
    assert by_memory.count > 0


def test_slow_gpus_and_jitter_are_in_every_candidate() -> None:
    base = piped(
        {"per_op_jitter": {"kind": "lognormal", "cv": 0.05}},
        num_gpus=16,
        slow_groups=[{"count": 1, "speed_fraction": 0.7}],
        draws=16,
    )
    space = Space(stages=(4, 8), microbatches=(8,), chunks=(1,), schedules=("gpipe", "1f1b"))
    expected = by_hand(base, space)
    found = search(base, space, Bounds())
    assert len(found.ranked) == 4
    for sized in found.ranked:
        assert sized.lost == pytest.approx(expected[tuple(sized.sizes)]["lost"], rel=1e-9)
        assert sized.lost_se > 0
    assert [sized.lost for sized in found.ranked] == sorted(each.lost for each in found.ranked)


def test_equal_losses_are_told_apart_by_what_is_held() -> None:
    space = Space(stages=(8,), schedules=("gpipe", "1f1b"))
    found = search(piped({"schedule": "gpipe"}), space, Bounds())
    assert [sized.sizes.schedule for sized in found.ranked] == ["1f1b", "gpipe"]
    assert found.ranked[0].lost == pytest.approx(found.ranked[1].lost, rel=1e-12)
    assert found.ranked[1].given_back == pytest.approx(0, abs=1e-9)


def test_micro_batches_that_cannot_be_are_counted() -> None:
    found = search(
        piped({"microbatches": 6}), Space(stages=(4, 2, 1), schedules=("1f1b",)), Bounds()
    )
    assert {each.code: each.count for each in found.left_out} == {"microbatches_not_whole": 2}
    assert "has 1.5 micro-batches" in found.left_out[0].detail
    many = search(
        piped({"microbatches": 60_000, "stages": 1}, num_gpus=4),
        Space(stages=(1, 4), schedules=("1f1b",)),
        Bounds(),
    )
    # Of four stages they are more than a scenario takes.
    assert {each.code: each.count for each in many.left_out} == {"out_of_range": 1}


def test_what_cannot_be_searched_is_refused() -> None:
    def refused(base: Scenario, space: Space) -> tuple[str, str]:
        with pytest.raises(InvalidScenario) as caught:
            search(base, space, Bounds())
        (problem,) = caught.value.problems
        return problem.pointer, problem.code

    alone = put(piped(), {**STEP, "pipeline": None})
    assert refused(alone, Space()) == ("/pipeline", "no_pipeline")
    numbers = tuple(range(1, 65))
    many = Space(stages=numbers, microbatches=numbers)
    assert refused(piped(), many) == ("/search/stages", "too_many_candidates")
    jitter = {"per_op_jitter": {"kind": "lognormal", "cv": 0.05}}
    drawn = piped(jitter, draws=30_000, num_gpus=8)
    assert refused(drawn, Space(schedules=("1f1b",))) == ("/draws", "too_many_draws")


@pytest.mark.parametrize(
    ("limit", "most", "largest"),
    [
        # The scenario by its formula, the others P M / 40 + M + P
        ("MOST_PLAN_STEPS", 1.5 + (8 + 8 + 1.6) + (16 + 8 + 3.2), 16),
        ("MOST_PLAN_STEPS", 1.5 + (8 + 8 + 1.6) + (16 + 8 + 3.2) + (32 + 8 + 6.4), 32),
    ],
)
def test_the_largest_are_left_out_where_there_is_no_time(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: float, largest: int
) -> None:
    # A smaller limit than that of the service, so that little is worked through.
    monkeypatch.setattr(pipeline_search, limit, most * (1 + 1e-12))
    sizes = (64, 8, 32, 16)
    space = Space(stages=(8,), microbatches=sizes, schedules=("zb1p",))
    found = search(piped(), space, Bounds())
    kept = sorted(size for size in sizes if size <= largest)
    assert sorted(sized.sizes.microbatches for sized in found.ranked) == kept
    (left_out,) = found.left_out
    assert (left_out.code, left_out.count) == ("too_long_at_once", 4 - len(kept))
    assert found.num_candidates == 4


def test_plans_that_are_worked_through_apart_give_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = search(piped(), SPACE, Bounds())
    monkeypatch.setattr(pipeline_search, "MOST_HELD", 300)
    apart = search(piped(), SPACE, Bounds())
    assert keys(apart) == keys(together)
    for one, other in zip(apart.ranked, together.ranked, strict=True):
        assert one.lost == pytest.approx(other.lost, rel=1e-12)
        assert one.point == other.point


def test_reasons_are_counted_and_the_first_is_kept() -> None:
    reasons = Reasons()
    for detail in ("one", "two", "three"):
        reasons.add("a", detail)
    reasons.add("b", "four")
    assert [(each.code, each.count, each.detail) for each in reasons.counted] == [
        ("a", 3, "one"),
        ("b", 1, "four"),
    ]
