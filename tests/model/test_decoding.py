import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from service.model.decoding import MAX_PARTS, SHOWN_CHARACTERS, escaped, problems_of, shown
from service.model.problems import Problem


class Small(Struct, forbid_unknown_fields=True, tag="small", tag_field="kind"):
    size: Annotated[int, Meta(ge=1, multiple_of=2)]


class Large(Struct, forbid_unknown_fields=True, tag="large", tag_field="kind"):
    size: float = 0.0


class Open(Struct):
    more: int = 0


class Document(Struct, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, pattern="^[a-z]*$")]
    kind: Literal["a", "b"] | None = None
    either: Small | Large | None = None
    parts: Annotated[tuple[Small, ...], Meta(max_length=2)] = ()
    table: dict[Annotated[str, Meta(max_length=3)], Annotated[int, Meta(le=9)]] = {}
    only: Open = msgspec.field(default_factory=Open)
    union: int | str = 0
    flags: list[bool] | None = None
    when: msgspec.UnsetType | float = msgspec.UNSET


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.sampled_from(["a", "small", "large", 2]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "either", "parts", "table", "size", "only", "x/~"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def faults(value: object, kind: object = Document) -> dict[str, str]:
    return {problem.pointer: problem.code for problem in problems_of(value, kind)}


def only(value: object, kind: object = Document) -> Problem:
    (problem,) = problems_of(value, kind)
    return problem


def test_a_valid_document_has_no_fault() -> None:
    value = {"name": "n", "either": {"kind": "large"}, "parts": [{"kind": "small", "size": 2}]}
    assert faults(value) == {}
    assert faults({"name": "n", "only": {"unknown": "allowed"}}) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": 1}, {"/name": "wrong_type"}),
        ({"name": ""}, {"/name": "wrong_length"}),
        ({"name": "A"}, {"/name": "wrong_pattern"}),
        ({"kind": "c"}, {"/kind": "not_one_of"}),
        ({"kind": 1}, {"/kind": "wrong_type"}),
        ({"either": 1}, {"/either": "wrong_type"}),
        ({"either": {}}, {"/either/kind": "missing_field"}),
        ({"either": {"kind": "medium", "size": "x"}}, {"/either/kind": "not_one_of"}),
        ({"either": {"kind": "small"}}, {"/either/size": "missing_field"}),
        ({"either": {"kind": "small", "size": 3}}, {"/either/size": "out_of_range"}),
        ({"either": {"kind": "large", "size": 3, "a/b~": 1}}, {"/either/a~1b~0": "unknown_field"}),
        ({"parts": [{"size": 3}]}, {"/parts/0/size": "out_of_range"}),
        ({"parts": [{"kind": "large", "size": 2}]}, {"/parts/0/kind": "not_one_of"}),
        ({"parts": {}}, {"/parts": "wrong_type"}),
        ({"parts": [{"kind": "small", "size": 2}] * 3}, {"/parts": "wrong_length"}),
        (
            {"parts": [{"kind": "small", "size": 2}, 1, None]},
            {"/parts/1": "wrong_type", "/parts/2": "wrong_type", "/parts": "wrong_length"},
        ),
        (
            {"table": {"long": 1, "a": 10}},
            {"/table/long": "wrong_length", "/table/a": "out_of_range"},
        ),
        ({"table": []}, {"/table": "wrong_type"}),
        ({"only": {"more": None}}, {"/only/more": "wrong_type"}),
        ({"union": {}}, {"/union": "wrong_type"}),
        ({"flags": [True, 1]}, {"/flags/1": "wrong_type"}),
    ],
)
def test_a_fault_is_named_by_its_pointer_and_code(
    change: Mapping[str, Any], expected: Mapping[str, str]
) -> None:
    assert faults({"name": "n", **change}) == expected


def test_all_faults_are_reported_at_once() -> None:
    value = {"either": {"kind": "small", "size": 0}, "parts": [1], "x": 1, "table": {"a": 99}}
    assert faults(value) == {
        "/x": "unknown_field",
        "/name": "missing_field",
        "/either/size": "out_of_range",
        "/parts/0": "wrong_type",
        "/table/a": "out_of_range",
    }


def test_of_a_list_that_is_far_too_long_not_every_part_is_asked() -> None:
    # Each question costs microseconds, and a body may hold millions.
    kind = Annotated[list[Annotated[float, Meta(ge=0)]], Meta(max_length=8)]
    far = [1.0] * (MAX_PARTS + 3)
    far[1] = -1.0
    far[-1] = -1.0
    found = [(fault.pointer, fault.code) for fault in problems_of(far, kind)]
    assert found == [("/1", "out_of_range"), ("", "wrong_length")]
    whole = [1.0] * (MAX_PARTS + 3)
    assert [fault.code for fault in problems_of(whole, kind)] == ["wrong_length"]


def test_sentences_give_value_and_rule() -> None:
    assert only({"name": 5}).detail == "5 is refused: expected str, got int"
    assert only({}).detail == "name is required, but missing"
    assert only({"name": "n", "kind": "c"}).detail == '"c" is refused: must be one of "a", "b"'
    assert only({"name": "n", "kind": 1}).detail == '1 is refused: must be one of "a", "b"'
    assert only({"name": "n", "either": {"kind": 3}}).detail == (
        '3 is refused: must be one of "small", "large"'
    )
    assert only({"name": "n", "when": "x"}).detail == '"x" is refused: expected float, got str'
    assert only({"a": 1}, Small | Large | None).detail == "kind is required, but missing"
    assert only({"name": "n", "y": 1}).detail.startswith('"y" is no known field; known are name, ')
    of_parts = [fault.detail for fault in problems_of({"name": "n", "parts": [1, 2, 3]}, Document)]
    assert of_parts[-1] == "3 values are refused: expected at most 2"


def test_of_words_numbers_and_lists_the_rule_is_that_of_what_was_sent() -> None:
    stage = Annotated[int, Meta(ge=0, le=3)] | Literal["random", "worst"]
    words = 'must be one of "random", "worst", a whole number'
    assert only("first", stage).detail == f'"first" is refused: {words}'
    assert only(True, stage).detail == f"true is refused: {words}"
    assert only(4, stage).detail == "4 is refused: expected int <= 3"
    interval = Annotated[float, Meta(gt=0)] | Literal["optimal"]
    assert only("x", interval).detail == '"x" is refused: must be one of "optimal", a number'
    some = Annotated[float, Meta(gt=0)]
    times = some | Annotated[tuple[some, ...], Meta(min_length=1)] | None
    assert only(-1.0, times).detail == "-1.0 is refused: expected float > 0.0"
    assert faults([1, "x", 0], times) == {"/1": "wrong_type", "/2": "out_of_range"}
    assert faults([], times) == {"": "wrong_length"}


def test_the_whole_document_has_the_empty_pointer_unless_told() -> None:
    assert faults([]) == {"": "wrong_type"}
    assert [problem.pointer for problem in problems_of(1, Document, pointer="/x")] == ["/x"]


def test_values_are_shown_as_sent_and_shortened() -> None:
    assert shown({"a": [1, 2.5, None, True, "x"]}) == '{"a":[1,2.5,null,true,"x"]}'
    assert shown("é" * 100) == '"' + "é" * (SHOWN_CHARACTERS - 2) + "…"
    assert [shown(value) for value in (math.nan, math.inf, -math.inf)] == ["nan", "inf", "-inf"]


def test_values_that_json_cannot_hold_are_shown_by_their_type() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert shown(deep) == "a value of type list"
    assert shown("\ud800") == "a value of type str"


def test_pointers_are_escaped() -> None:
    assert [escaped(part) for part in ("a/b", "m~n", "~1", 3)] == ["a~1b", "m~0n", "~01", "3"]


@settings(deadline=None, max_examples=300)
@given(JSON)
def test_any_json_is_either_valid_or_has_faults_with_pointers_into_it(value: object) -> None:
    try:
        msgspec.convert(value, Document, strict=True)
    except msgspec.ValidationError:
        found = list(problems_of(value, Document))
        assert found
        for problem in found:
            place, missing = value, False
            for part in problem.pointer.split("/")[1:]:
                name = part.replace("~1", "/").replace("~0", "~")
                assert not missing
                if isinstance(place, list):
                    place = place[int(name)]
                else:
                    assert isinstance(place, dict)
                    missing = name not in place
                    place = place.get(name)
            assert missing == (problem.code == "missing_field")
    else:
        assert list(problems_of(value, Document)) == []
