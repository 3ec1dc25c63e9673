"""Causes of a moved loss: what moved is named, and the parts sum to the difference exactly."""

import math
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from service.reports.changes import change
from service.reports.loss_report import VolumeCause
from service.reports.origins import Revised, calibration_of
from service.reports.volume import (
    MOST_PATHS,
    Loss,
    Move,
    Pair,
    Side,
    Step,
    causes_of,
    merged,
    moves_between,
    steps_between,
    summed,
)

SCENARIO: dict[str, Any] = {
    "num_gpus": 64,
    "period_days": 30,
    "variability": {"transient": {"kind": "normal", "cv": 0.05}, "spikes": None},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "quantiles": [1.0, 2.0],
}


def side(lost: float, scenario: dict[str, Any] | None = None, **values: Any) -> Side:
    given: dict[str, Any] = {
        "axes": [],
        "point": 0,
        "profile_slug": "prod",
        "profile_revision": 1,
        "profile_revision_id": UUID(int=1),
        "model_version": "3.0",
        "gpu_hours_lost_se": 0.0,
    } | values
    return Side(scenario=scenario or SCENARIO, gpu_hours_lost=lost, **given)


def pair(past: float, new: float, **values: Any) -> Pair:
    return Pair(past=side(past), new=side(new, **values))


def step(path: str, cause: Any = "template") -> Step:
    return Step(cause=cause, detail="d", moves=(Move(path, 1, 2),))


def a_cause(gpu_hours: float, path: str | None = "num_gpus", **values: Any) -> VolumeCause:
    given: dict[str, Any] = {"cause": "template", "detail": "d", "past": "1", "new": "2"} | values
    return VolumeCause(path=path, gpu_hours_per_30_days=gpu_hours, **given)


def sums(causes: list[VolumeCause]) -> float:
    return math.fsum(cause.gpu_hours_per_30_days for cause in causes)


def shares(causes: list[VolumeCause]) -> list[tuple[str, str | None, float]]:
    return [(cause.cause, cause.path, cause.gpu_hours_per_30_days) for cause in causes]


def test_hours_are_of_30_days() -> None:
    month = side(200.0, SCENARIO | {"period_days": 20}, gpu_hours_lost_se=4.0)
    assert (month.per_30_days, month.se_per_30_days) == (300.0, 6.0)
    assert side(1.0, gpu_hours_lost_se=None).se_per_30_days == 0.0


def test_inputs_are_told_apart_as_far_as_both_sides_are_alike() -> None:
    new = {
        "num_gpus": 128,
        "period_days": 30,
        "variability": {
            "transient": {"kind": "normal", "cv": 0.06},
            "spikes": {"probability": 0.1},
        },
        "slow_groups": [{"count": 2, "speed_fraction": 0.7}],
        "quantiles": [1.0, 3.0],
    }
    assert moves_between(SCENARIO, new) == [
        Move("num_gpus", 64, 128),
        Move("quantiles", [1.0, 2.0], [1.0, 3.0]),
        Move("slow_groups.0.count", 1, 2),
        Move("variability.spikes", None, {"probability": 0.1}),
        Move("variability.transient.cv", 0.05, 0.06),
    ]
    kinds = {"transient": {"kind": "gamma", "cv": 0.05}, "spikes": None}
    assert moves_between(SCENARIO, SCENARIO | {"variability": kinds}) == [
        Move("variability.transient", {"kind": "normal", "cv": 0.05}, {"kind": "gamma", "cv": 0.05})
    ]
    groups = [*SCENARIO["slow_groups"], {"count": 3, "speed_fraction": 0.5}]
    assert moves_between(SCENARIO, SCENARIO | {"slow_groups": groups}) == [
        Move("slow_groups", SCENARIO["slow_groups"], groups)
    ]
    assert moves_between(SCENARIO, SCENARIO) == []


def test_steps_stand_in_the_fixed_order() -> None:
    """The model, what the profile moved, what the batch moved, the window."""
    new = SCENARIO | {
        "num_gpus": 128,
        "period_days": 20,
        "quantiles": [5.0],
        "slow_groups": [{"count": 3, "speed_fraction": 0.7}],
    }
    both = Pair(
        past=side(1.0),
        new=side(1.0, new, profile_revision=2, profile_revision_id=UUID(int=2), model_version="4"),
    )
    # The batch says 128; the profile says something else on both sides.
    defaults = (SCENARIO, new | {"num_gpus": 96, "quantiles": [1.0, 2.0]})
    steps = steps_between(both, SCENARIO, new, defaults)
    assert [
        (found.cause, found.detail, [move.path for move in found.moves]) for found in steps
    ] == [
        ("model_version", "3.0 -> 4", []),
        ("profile_revision", "prod@1 -> prod@2", ["slow_groups.0.count"]),
        ("template", "set by the batch", ["num_gpus"]),
        ("template", "set by the batch", ["quantiles"]),
        ("window", "length of the window", ["period_days"]),
    ]
    assert [found.new_model for found in steps] == [True, False, False, False, False]


def test_what_a_calibration_moved_is_told_apart_from_what_somebody_wrote() -> None:
    """The last revision that moved an input owns it, whichever moved it before."""
    groups = [{"count": 3, "speed_fraction": 0.7}]
    second = SCENARIO | {"num_gpus": 96, "slow_groups": groups, "quantiles": [1.0]}
    third = second | {"num_gpus": 128, "quantiles": [5.0]}
    revisions = [
        Revised(revision=1, defaults=SCENARIO),
        Revised(
            revision=2,
            defaults=second,
            calibration="night 3",
            paths=("num_gpus", "slow_groups"),
        ),
        Revised(revision=3, defaults=third),
    ]
    both = Pair(
        past=side(1.0),
        new=side(1.0, third, profile_revision=3, profile_revision_id=UUID(int=3)),
    )
    steps = steps_between(both, SCENARIO, third, (SCENARIO, third), revisions)
    assert [(found.cause, found.detail, found.moves[0].path) for found in steps] == [
        ("profile_revision", "prod@1 -> prod@3", "num_gpus"),
        ("profile_revision", "prod@1 -> prod@3", "quantiles"),
        ("calibration", "prod@1 -> prod@3: night 3", "slow_groups.0.count"),
    ]


def test_an_input_is_one_with_what_lies_under_it_and_above() -> None:
    def moved(path: str, *taken: str) -> str | None:
        revisions = [
            Revised(revision=1, defaults={"a": {"b": 1, "bc": 1}}),
            Revised(revision=2, defaults={"a": {"b": 2, "bc": 2}}, calibration="c", paths=taken),
        ]
        return calibration_of(path, revisions)

    assert [moved("a.b", taken) for taken in ("a.b", "a", "a.b.c", "a.bc", "ab")] == [
        *("c", "c", "c", None, None)
    ]
    assert moved("a.z", "a") is None
    assert calibration_of("a.b", ()) is None


@pytest.mark.parametrize(
    "defaults",
    [
        None,
        ({"slow_groups": []}, {"slow_groups": []}),
        ({"slow_groups": 1}, {"slow_groups": {}}),
        (SCENARIO, SCENARIO),
    ],
)
def test_what_the_profile_does_not_say_was_set_by_the_batch(defaults: Any) -> None:
    new = SCENARIO | {"slow_groups": [{"count": 3, "speed_fraction": 0.7}]}
    (found,) = steps_between(pair(1.0, 2.0), SCENARIO, new, defaults)
    assert (found.cause, found.moves) == ("template", (Move("slow_groups.0.count", 1, 3),))


def test_more_than_twelve_inputs_come_together() -> None:
    past = {f"p{number:02}": 1 for number in range(MOST_PATHS + 3)}
    steps = steps_between(pair(1.0, 2.0), past, dict.fromkeys(past, 2), None)
    assert len(steps) == MOST_PATHS + 1
    assert (steps[-1].cause, steps[-1].detail) == ("joint", "p12, p13, p14")
    everything = merged([Step(cause="model_version", detail="3 -> 4", new_model=True), *steps])
    assert everything.detail.startswith("3 -> 4, p00, ")
    assert everything.detail.endswith("p10 and 4 more")
    assert everything.new_model
    assert len(everything.moves) == len(past)


def test_each_cause_is_what_the_loss_does_when_it_joins() -> None:
    steps = [
        Step(cause="model_version", detail="3 -> 4", new_model=True),
        step("num_gpus", "profile_revision"),
        merged([step("a"), step("b")]),
        step("period_days", "window"),
    ]
    between = [Loss(110.0, 0.0), Loss(90.0, 0.0), Loss(95.0, 0.0)]
    causes = causes_of(pair(100.0, 120.0), steps, between)
    assert shares(causes) == [
        ("model_version", None, 10.0),
        ("profile_revision", "num_gpus", -20.0),
        ("joint", None, 5.0),
        ("window", "period_days", 25.0),
    ]
    assert (causes[1].past, causes[1].new) == ("1", "2")
    assert (causes[2].detail, causes[2].past, causes[2].new) == ("a, b", None, None)


def test_where_nothing_moved_there_is_no_cause() -> None:
    assert causes_of(pair(100.0, 100.0), [], []) == []
    (found,) = causes_of(pair(100.0, 101.0), [], [])
    assert (found.cause, found.detail) == ("joint", "nothing that is stored moved")
    assert found.gpu_hours_per_30_days == 1.0


NOISY = Pair(past=side(100.0, gpu_hours_lost_se=3.0), new=side(140.0, gpu_hours_lost_se=4.0))


def test_with_one_seed_a_difference_belongs_to_what_moved() -> None:
    """However small beside the errors of both sides: the draws are common."""
    causes = causes_of(NOISY, [step("a"), step("b")], [Loss(101.0, 4.0)])
    assert shares(causes) == [("template", "a", 1.0), ("template", "b", 39.0)]
    merged_one = merged([step("a"), step("b")])
    (found,) = causes_of(replace(NOISY, new=side(101.0, gpu_hours_lost_se=4.0)), [merged_one], [])
    assert (found.cause, found.gpu_hours_per_30_days) == ("joint", 1.0)


def test_other_draws_are_sampling_whatever_else_moved() -> None:
    new = SCENARIO | {"num_gpus": 128, "seed": 2, "draws": 64, "period_days": 20}
    steps = steps_between(NOISY, SCENARIO | {"seed": 1, "draws": 128}, new, None)
    assert [(found.cause, [move.path for move in found.moves]) for found in steps] == [
        ("template", ["num_gpus"]),
        ("window", ["period_days"]),
        ("sampling", ["draws"]),
        ("sampling", ["seed"]),
    ]
    causes = causes_of(NOISY, steps, [Loss(101.0, 4.0), Loss(102.0, 4.0), Loss(160.0, 4.0)])
    assert shares(causes) == [
        ("template", "num_gpus", 1.0),
        ("window", "period_days", 1.0),
        ("sampling", "draws", 58.0),
        ("sampling", "seed", -20.0),
    ]
    assert [cause.detail for cause in causes[2:]] == ["other draws"] * 2
    assert merged(steps[2:]).cause == "sampling"


@pytest.mark.parametrize(
    ("lost", "cause"), [(109.0, "sampling"), (110.0, "joint"), (100.0, None), (130.0, "joint")]
)
def test_below_two_standard_errors_it_is_sampling_where_the_seed_cannot_be_told_apart(
    lost: float, cause: str | None
) -> None:
    """2 x hypot(3, 4) = 10; so it is where nothing moved at all."""
    both = replace(NOISY, new=side(lost, gpu_hours_lost_se=4.0))
    for steps in ([merged([step("num_gpus"), step("seed")])], []):
        causes = causes_of(both, steps, [])
        if cause is None and not steps:
            assert causes == []
            continue
        assert shares(causes) == [(cause or "joint", None, lost - 100.0)]


def test_long_values_are_cut() -> None:
    moved = Step(cause="template", detail="d", moves=(Move("quantiles", list(range(500)), [1]),))
    (found,) = causes_of(pair(1.0, 2.0), [moved], [])
    assert found.past is not None
    assert len(found.past) == 200
    assert found.past.endswith("…")
    assert found.new == "[1]"


def test_what_no_part_can_hold_stands_alone() -> None:
    """Two parts of 1e16 cannot differ by 0.3."""
    causes = causes_of(pair(1.0, 1.3), [step("a"), step("b")], [Loss(1e16, 0.0)])
    assert [cause.detail for cause in causes] == ["d", "d", "rounding"]
    assert sums(causes) == change(1.0, 1.3).difference


def test_what_one_float_cannot_hold_takes_more() -> None:
    between = [Loss(16777218.0, 0.0), Loss(1.4545374307781458, 0.0)]
    causes = causes_of(pair(0.0, 8.5e-139), [step("a"), step("b"), step("c")], between)
    assert [cause.detail for cause in causes] == ["d", "d", "d", "rounding", "rounding"]
    assert sums(causes) == 8.5e-139


LOSSES = st.floats(min_value=0, max_value=1e9)


@given(LOSSES, st.lists(LOSSES, max_size=6), LOSSES, st.floats(min_value=0, max_value=1e6))
def test_the_parts_sum_to_the_difference_exactly(
    past: float, between: list[float], new: float, error: float
) -> None:
    steps = [step(f"p{number}") for number in range(len(between) + 1)]
    both = Pair(past=side(past, gpu_hours_lost_se=error), new=side(new))
    causes = causes_of(both, steps, [Loss(loss, 0.0) for loss in between])
    assert sums(causes) == change(past, new).difference


def test_causes_of_many_items_are_added() -> None:
    parts = [
        [a_cause(1.0), a_cause(-5.0, "load_ms")],
        [a_cause(2.0), a_cause(1.0, "load_ms", past="3")],
        [],
    ]
    found = summed(parts, -1.0)
    assert shares(found) == [("template", "load_ms", -4.0), ("template", "num_gpus", 3.0)]
    assert [(cause.past, cause.new) for cause in found] == [(None, None), ("1", "2")]
    assert summed([[], []], 0.0) == []
    (unknown,) = summed([], 2.0)
    assert (unknown.cause, unknown.gpu_hours_per_30_days) == ("joint", 2.0)


@given(st.lists(st.lists(st.floats(min_value=-1e9, max_value=1e9), max_size=4), max_size=4))
def test_added_causes_sum_to_the_difference_of_the_totals(parts: list[list[float]]) -> None:
    causes = [[a_cause(hours, f"p{n}") for n, hours in enumerate(part)] for part in parts]
    difference = sum(hours for part in parts for hours in part)
    assert sums(summed(causes, difference)) == difference
