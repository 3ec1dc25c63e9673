import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.model.axes import (
    MAX_LENGTH,
    PlainAxis,
    axis_length,
    axis_numbers,
    decode_axes,
    whole_numbers,
    without_repeats,
)
from service.model.grid import build_grid
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario

BASE = decode_scenario(
    {
        "num_gpus": 64,
        "compute_ms": 300,
        "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
        "variability": {"transient": {"kind": "normal", "cv": 0.05}},
    }
)
NUMBERS = st.integers(-3, 10**6) | st.floats() | st.sampled_from([0, 5e-324, 1e308, -1e308, 8.0])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
FORMS = st.fixed_dictionaries(
    {},
    optional={
        "values": st.lists(NUMBERS | JSON, max_size=4) | JSON,
        "range": st.fixed_dictionaries({"start": NUMBERS, "stop": NUMBERS, "step": NUMBERS}),
        "logspace": st.fixed_dictionaries(
            {"start": NUMBERS, "stop": NUMBERS, "num": st.integers(-1, 50) | NUMBERS}
        ),
        "powers_of_two": st.fixed_dictionaries({"start": NUMBERS, "stop": NUMBERS}),
    },
)
PATHS = st.sampled_from(
    [
        "num_gpus",
        "load_ms",
        "compute_ms",
        "communication",
        "communication.allreduce_ms",
        "slow_groups",
        "slow_groups.0",
        "slow_groups.0.count",
        "slow_groups.0.speed_fraction",
        "variability",
        "variability.transient",
        "variability.transient.kind",
        "variability.transient.cv",
        "seed",
        "x",
    ]
)
PLAIN = st.tuples(PATHS | TEXT, FORMS).map(lambda pair: {"path": pair[0], **pair[1]})
ONE_FORM = st.tuples(PATHS, FORMS.filter(lambda forms: len(forms) == 1)).map(
    lambda pair: {"path": pair[0], **pair[1]}
)
AXES = st.lists(
    PLAIN | ONE_FORM | JSON | st.fixed_dictionaries({"zip": st.lists(ONE_FORM | JSON, max_size=3)}),
    max_size=3,
)


def numbers(**form: Any) -> list[float]:
    (axis,) = decode_axes([{"path": "load_ms", **form}])
    found: list[float] = axis_numbers(axis).tolist()
    assert axis_length(axis) == len(found)
    return found


def refused(*axes: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidScenario) as caught:
        decode_axes([*axes])
    return [(problem.pointer, problem.code) for problem in caught.value.problems]


def spread(start: float, stop: float, step: float) -> dict[str, Any]:
    return {"range": {"start": start, "stop": stop, "step": step}}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"values": [3, 1.5, 1]}, [3.0, 1.5, 1.0]),
        (spread(1, 5, 2), [1, 3, 5]),
        (spread(1, 4.9, 2), [1, 3]),
        (spread(5, 1, -2), [5, 3, 1]),
        (spread(5, 5, 1), [5]),
        (spread(5, 5, -1), [5]),
        (spread(0, 0.3, 0.1), [0, 0.1, 0.2, 0.3]),
        (spread(-1, 1, 1), [-1, 0, 1]),
        ({"logspace": {"start": 1, "stop": 1000, "num": 4}}, [1, 10, 100, 1000]),
        ({"logspace": {"start": 100, "stop": 1, "num": 3}}, [100, 10, 1]),
        ({"logspace": {"start": 7, "stop": 9, "num": 1}}, [7]),
        ({"powers_of_two": {"start": 8, "stop": 64}}, [8, 16, 32, 64]),
        ({"powers_of_two": {"start": 8, "stop": 63.9}}, [8, 16, 32]),
        ({"powers_of_two": {"start": 3, "stop": 3}}, [3]),
        ({"powers_of_two": {"start": 0.75, "stop": 3}}, [0.75, 1.5, 3]),
    ],
)
def test_forms_stand_for_their_values(form: Mapping[str, Any], expected: list[float]) -> None:
    assert numbers(**form) == pytest.approx(expected, rel=1e-15, abs=0)


def test_the_demo_axis_goes_from_8_to_131072() -> None:
    sizes = numbers(powers_of_two={"start": 8, "stop": 131_072})
    assert sizes == [8 * 2.0**n for n in range(15)]


@pytest.mark.parametrize("steps", range(1, 200, 7))
def test_a_range_reaches_its_stop_but_never_passes_it(steps: int) -> None:
    found = numbers(**spread(0, 1, 1 / steps))
    assert len(found) == steps + 1
    assert found[-1] == pytest.approx(1, rel=1e-15)
    assert max(found) <= 1
    assert numbers(**spread(0.05, 1, 0.05))[-1] == 1
    assert min(numbers(**spread(1, 0, -1 / steps))) >= 0


def test_ends_are_exact_and_extremes_do_not_overflow() -> None:
    assert numbers(logspace={"start": 0.001, "stop": 0.3, "num": 7})[::6] == [0.001, 0.3]
    tiny = numbers(powers_of_two={"start": 5e-324, "stop": 1e308})
    assert len(tiny) == 2098
    assert (tiny[0], tiny[-1]) == (5e-324, 2.0**1023)
    assert numbers(logspace={"start": 1e-300, "stop": 1e300, "num": 3}) == pytest.approx(
        [1e-300, 1, 1e300]
    )
    assert axis_length(PlainAxis(**decoded(spread(-1e308, 1e308, 1e-9)))) == MAX_LENGTH + 1
    assert axis_length(PlainAxis(**decoded(spread(0, 1e308, 5e-324)))) == MAX_LENGTH + 1


def decoded(form: Mapping[str, Any]) -> dict[str, Any]:
    (axis,) = decode_axes([{"path": "load_ms", **form}])
    return {"path": axis.path, "range": axis.range}


@pytest.mark.parametrize(
    ("axis", "pointer", "code"),
    [
        ({"values": []}, "/values", "empty_axis"),
        (spread(1, 5, 0), "/range", "empty_axis"),
        (spread(5, 1, 1), "/range", "empty_axis"),
        (spread(1, 5, -1), "/range", "empty_axis"),
        (spread(1e-300, 0, 1e300), "/range", "empty_axis"),
        ({"powers_of_two": {"start": 64, "stop": 8}}, "/powers_of_two", "empty_axis"),
        (spread(0, math.inf, 1), "/range", "not_finite"),
        (spread(math.nan, 1, 1), "/range", "not_finite"),
        ({"logspace": {"start": 1, "stop": math.inf, "num": 3}}, "/logspace", "not_finite"),
        ({"powers_of_two": {"start": 1, "stop": math.inf}}, "/powers_of_two", "not_finite"),
        ({"logspace": {"start": 0, "stop": 1, "num": 3}}, "/logspace/start", "out_of_range"),
        ({"logspace": {"start": 1, "stop": -1, "num": 3}}, "/logspace/stop", "out_of_range"),
        ({"logspace": {"start": 1, "stop": 2, "num": 0}}, "/logspace/num", "out_of_range"),
        ({"logspace": {"start": 1, "stop": 2, "num": 10**13}}, "/logspace/num", "out_of_range"),
        ({"logspace": {"start": 1, "stop": 2, "num": 2.5}}, "/logspace/num", "wrong_type"),
        ({"powers_of_two": {"start": 0, "stop": 2}}, "/powers_of_two/start", "out_of_range"),
        ({"powers_of_two": {"start": math.nan, "stop": 2}}, "/powers_of_two/start", "out_of_range"),
        ({"range": {"start": "1", "stop": 2, "step": 1}}, "/range/start", "wrong_type"),
        ({"range": {"start": 1, "stop": 2}}, "/range/step", "missing_field"),
        ({"values": 3}, "/values", "wrong_type"),
        ({"values": [1], "valeus": [2]}, "/valeus", "unknown_field"),
        ({}, "", "one_form"),
        ({"values": [1], **spread(1, 2, 1)}, "", "one_form"),
        ({"values": [], "powers_of_two": {"start": 8, "stop": 1}}, "", "one_form"),
    ],
)
def test_an_axis_that_makes_no_sense_is_refused(
    axis: Mapping[str, Any], pointer: str, code: str
) -> None:
    assert refused({"path": "load_ms", **axis}) == [(f"/axes/0{pointer}", code)]
    sound = {"path": "compute_ms", "values": [1]}
    assert refused(sound, {"zip": [sound, {"path": "load_ms", **axis}]}) == [
        (f"/axes/1/zip/1{pointer}", code)
    ]


def test_paths_are_needed_and_short() -> None:
    assert refused({"values": [1]}) == [("/axes/0/path", "missing_field")]
    assert refused({}) == [("/axes/0/path", "missing_field"), ("/axes/0", "one_form")]
    assert refused({"path": "", "values": [1]}) == [("/axes/0/path", "wrong_length")]
    assert refused({"path": "x" * 101, "values": [1]}) == [("/axes/0/path", "wrong_length")]
    assert refused({"path": 3, "values": [1]}) == [("/axes/0/path", "wrong_type")]


def test_sentences_say_what_is_wrong() -> None:
    with pytest.raises(InvalidScenario) as caught:
        decode_axes([{"path": "a", "values": [1], **spread(1, 2, 1)}, {"path": "b"}])
    assert [problem.detail for problem in caught.value.problems] == [
        (
            "an axis has exactly one of values, range, logspace, powers_of_two; "
            "this one has values and range"
        ),
        "an axis has exactly one of values, range, logspace, powers_of_two; this one has none",
    ]
    with pytest.raises(InvalidScenario, match="from 5 to 1 there is no value"):
        decode_axes([{"path": "a", **spread(5, 1, 1)}])


def test_a_zip_stands_alone() -> None:
    part = {"path": "load_ms", "values": [1]}
    for more in ({"path": "compute_ms"}, {"values": [1]}, spread(1, 1, 1)):
        assert refused({"zip": [part], **more}) == [("/axes/0/zip", "zip_shape")]
    assert refused({"zip": [{"zip": [part]}]}) == [("/axes/0/zip/0/zip", "unknown_field")]
    assert refused({"zip": []}) == [("/axes/0/zip", "wrong_length")]
    assert refused({"zip": [part] * 17}) == [("/axes/0/zip", "wrong_length")]


def test_a_deeply_nested_zip_is_refused_too() -> None:
    nested: dict[str, Any] = {"path": "load_ms", "values": 3}
    for _ in range(300):
        nested = {"zip": [nested]}
    assert refused(nested) == [("/axes/0/zip/0/zip", "unknown_field")]


def test_axes_of_a_zip_have_equally_many_values() -> None:
    axes = [
        {"path": "load_ms", "values": [1, 2, 3]},
        {"path": "compute_ms", **spread(1, 3, 1)},
        {"path": "num_gpus", "powers_of_two": {"start": 1, "stop": 2}},
    ]
    assert refused({"zip": axes}) == [("/axes/0/zip", "zip_lengths")]
    with pytest.raises(InvalidScenario, match="these have 3, 3, 2"):
        decode_axes([{"zip": axes}])
    assert len(decode_axes([{"zip": axes[:2]}])) == 1


def test_there_is_a_limit_of_axes() -> None:
    axes = [{"path": f"p{n}", "values": [1]} for n in range(17)]
    assert refused(*axes) == [("/axes", "too_many_axes")]
    assert len(decode_axes(axes[:16])) == 16


@pytest.mark.parametrize("value", [None, 1, "x", {}])
def test_axes_are_a_list(value: object) -> None:
    with pytest.raises(InvalidScenario) as caught:
        decode_axes(value)
    assert [problem.pointer for problem in caught.value.problems] == ["/axes"]


def test_all_faults_are_reported_at_once() -> None:
    assert refused(3, {"path": 1, "x": 1, "range": {"start": 1}}, {"zip": [None]}) == [
        ("/axes/0", "wrong_type"),
        ("/axes/1/x", "unknown_field"),
        ("/axes/1/path", "wrong_type"),
        ("/axes/1/range/stop", "missing_field"),
        ("/axes/1/range/step", "missing_field"),
        ("/axes/2/zip/0", "wrong_type"),
    ]
    assert refused({"values": []}, {"path": "a"}) == [
        ("/axes/0/path", "missing_field"),
        ("/axes/0/values", "empty_axis"),
        ("/axes/1", "one_form"),
    ]


def test_numbers_are_rounded_half_to_even() -> None:
    rounded = whole_numbers(np.array([0.5, 1.5, 2.5, 3.5, -0.5, 7.49, 1e15 + 0.5]))
    assert rounded.tolist() == [0, 2, 2, 4, 0, 7, 10**15]
    assert rounded.dtype == np.int64


def test_repeats_are_removed_in_the_order_in_which_values_are_first_met() -> None:
    assert without_repeats(np.array([3, 1, 3, 2, 1])).tolist() == [3, 1, 2]
    same = np.array([3, 1, 2])
    assert without_repeats(same) is same


@settings(deadline=None, max_examples=150)
@given(AXES)
def test_any_json_is_a_grid_or_refused(value: object) -> None:
    try:
        grid = build_grid(BASE, decode_axes(value), max_points=2_000)
    except InvalidScenario as error:
        problems = error.problems
    else:
        assert 1 <= grid.num_points <= 2_000
        columns = grid.columns(0, grid.num_points)
        assert columns.num_points == grid.num_points
        json.dumps(grid.inputs_at(grid.num_points - 1))
        assert grid.find(grid.inputs_at(0)) == 0
        return
    assert problems
    assert all(problem.pointer.startswith("/axes") for problem in problems)
