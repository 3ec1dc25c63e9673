from datetime import date
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from service.errors import InvalidError
from service.jobs.documents import MAX_FAULTS, decode_document, escaped, faults_of


class Fixed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fixed", tag_field="kind"
):
    allreduce_ms: Annotated[float, Meta(ge=0)]


class Ring(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ring", tag_field="kind"
):
    num_bytes: int


class Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=1)]
    share: Annotated[float, Meta(gt=0, lt=1)] = 0.5


class Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=5)]
    groups: tuple[Group, ...] = ()
    communication: Fixed | Ring | None = None
    tags: dict[Annotated[str, Meta(max_length=3)], Annotated[str, Meta(max_length=4)]] = {}
    code: Annotated[str, Meta(pattern="^[A-Z]{3}$")] | None = None
    state: Literal["open", "shut"] = "open"
    on: date | None = None
    id: UUID | None = None
    flag: bool = False
    few: Annotated[list[int], Meta(max_length=2)] = []


def codes(value: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidError) as caught:
        decode_document(value, Document)
    return [(fault.pointer, fault.code) for fault in caught.value.errors]


def test_a_valid_document_is_read() -> None:
    value = {
        "name": "a",
        "groups": [{"count": 1}],
        "communication": {"kind": "fixed", "allreduce_ms": 8},
        "tags": {"a": "b"},
        "on": "2026-12-01",
    }
    found = decode_document(value, Document)
    assert found.groups == (Group(count=1),)
    assert found.on == date(2026, 12, 1)
    assert list(faults_of(value, Document)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": 5}, [("/name", "wrong_type")]),
        ({"name": ""}, [("/name", "wrong_length")]),
        ({"name": "abcdef"}, [("/name", "wrong_length")]),
        ({"groups": {}}, [("/groups", "wrong_type")]),
        ({"groups": [{"count": "8"}]}, [("/groups/0/count", "wrong_type")]),
        ({"groups": [{"count": 8.0}]}, [("/groups/0/count", "wrong_type")]),
        ({"groups": [{"count": True}]}, [("/groups/0/count", "wrong_type")]),
        ({"groups": [{"count": 0}]}, [("/groups/0/count", "out_of_range")]),
        ({"groups": [{"count": 1, "share": 1}]}, [("/groups/0/share", "out_of_range")]),
        ({"groups": [{}]}, [("/groups/0/count", "missing_field")]),
        ({"groups": [None]}, [("/groups/0", "wrong_type")]),
        ({"zz/~": 1}, [("/zz~1~0", "unknown_field")]),
        ({"communication": {"kind": "tree"}}, [("/communication/kind", "not_one_of")]),
        ({"communication": {}}, [("/communication/kind", "missing_field")]),
        ({"communication": {"kind": 1}}, [("/communication/kind", "not_one_of")]),
        ({"communication": 1}, [("/communication", "wrong_type")]),
        (
            {"communication": {"kind": "ring", "num_bytes": "x", "more": 1}},
            [("/communication/more", "unknown_field"), ("/communication/num_bytes", "wrong_type")],
        ),
        (
            {"tags": {"a": "bcdef", "long": "b"}},
            [("/tags/a", "wrong_length"), ("/tags/long", "wrong_length")],
        ),
        ({"code": "eur"}, [("/code", "wrong_pattern")]),
        ({"state": "ajar"}, [("/state", "not_one_of")]),
        ({"on": "2026-02-30"}, [("/on", "wrong_format")]),
        ({"id": "x"}, [("/id", "wrong_format")]),
        ({"flag": 1}, [("/flag", "wrong_type")]),
        ({"few": [1, 2, 3]}, [("/few", "wrong_length")]),
    ],
)
def test_a_fault_has_its_place_and_rule(
    change: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert codes({"name": "a", **change}) == expected


def test_all_faults_are_named_not_only_the_first() -> None:
    value = {"groups": [{"count": 0, "share": 2}, {"coount": 1}], "flag": None, "extra": 1}
    assert sorted(codes(value)) == [
        ("/extra", "unknown_field"),
        ("/flag", "wrong_type"),
        ("/groups/0/count", "out_of_range"),
        ("/groups/0/share", "out_of_range"),
        ("/groups/1/coount", "unknown_field"),
        ("/groups/1/count", "missing_field"),
        ("/name", "missing_field"),
    ]


def test_the_sentence_shows_the_value_and_the_rule() -> None:
    with pytest.raises(InvalidError) as caught:
        decode_document({"name": "a", "state": "ajar", "groups": [{"count": 0}]}, Document)
    details = [fault.detail for fault in caught.value.errors]
    assert details == [
        "0 is refused: expected int >= 1",
        '"ajar" is refused: must be one of "open", "shut"',
    ]


def test_pointers_start_at_the_given_place() -> None:
    with pytest.raises(InvalidError) as caught:
        decode_document({"name": 1}, Document, pointer="/items/3")
    assert caught.value.errors[0].pointer == "/items/3/name"


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(InvalidError) as caught:
        decode_document({"name": "a" * 5_000}, Document)
    assert len(caught.value.detail) < 150


def test_the_number_of_faults_is_bounded() -> None:
    assert len(codes({"name": "a", "groups": [0] * (MAX_FAULTS + 500)})) == MAX_FAULTS


def test_parts_of_pointers_are_escaped() -> None:
    assert escaped("a/b~c") == "a~1b~0c"
    assert escaped(3) == "3"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "groups", "count", "kind", "tags", "x"]), inner)
    ),
)


@given(json_values)
def test_any_value_is_read_or_refused_with_places(value: Any) -> None:
    faults = list(faults_of(value, Document))
    assert all(fault.pointer == "" or fault.pointer[0] == "/" for fault in faults)
    if not faults:
        assert decode_document(value, Document) == msgspec.convert(value, Document)
