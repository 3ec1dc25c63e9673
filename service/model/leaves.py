"""The numbers, labels and switches of a scenario, found in the declarations of its fields.

A leaf is named by its path; leaves of a list are named without the position
(`slow_groups.count`). A column of `Columns` holds one leaf.
"""

import math
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from service.model.fields import Scenario

ABSENT = 0
"""Code of a label that a scenario does not have; labels count from 1."""
SWITCH = ("false", "true")
KIND = "kind"
# What a list's column holds where a point has fewer entries: groups of no GPU at full speed.
NO_COUNT, FULL_SPEED = 0, 1.0


class Leaf(NamedTuple):
    """One column of inputs.

    path     in the scenario, without positions in lists
    dtype    of the column: float64, int64 (labels too) or object (a list of numbers)
    type     the field's annotation, with its bounds
    absent   what the column holds where a scenario does not have the leaf or leaves it out
    labels   names of the codes 1, 2, …; empty for numbers
    is_whole whether it is a whole number
    words    strings that the field allows beside numbers: the only one is stored as 0, several as
             -1, -2, …
    in_list  whether a scenario has a list of them
    can_be_set  whether a path may name it; the kind of a field that may be a bare word has none
    """

    path: str
    dtype: str
    type: Any
    absent: Any
    labels: tuple[str, ...] = ()
    is_whole: bool = False
    words: tuple[str, ...] = ()
    in_list: bool = False
    can_be_set: bool = True

    @property
    def is_number(self) -> bool:
        """Whether it is a number, and not a label, a switch or a list."""
        return not self.labels and self.dtype != "object"

    @property
    def is_number_or_list(self) -> bool:
        """Whether it is a list of numbers, or one number in its place."""
        return self.dtype == "object" and not {int, float}.isdisjoint(members(self.type))


class _Place(NamedTuple):
    """Where a field stands: the path before it, whether every scenario has it."""

    above: str
    always: bool
    in_list: bool


@lru_cache(maxsize=1)
def leaves() -> dict[str, Leaf]:
    """All leaves by path, in the order of the fields; the same path in a union is one leaf."""
    found: dict[str, Leaf] = {}
    for leaf in _of_struct(Scenario, _Place("", always=True, in_list=False)):
        found.setdefault(leaf.path, leaf)
    return found


def members(annotation: Any) -> list[Any]:
    """The types that a field may take, without annotations and without null."""
    return [kind for kind in _parts(annotation) if kind is not NoneType]


def is_struct(kind: Any) -> bool:
    """Whether the type is a document of its own."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def can_be_null(leaf: Leaf) -> bool:
    """Whether the field itself may be null."""
    return NoneType in _parts(leaf.type)


def words_of(kinds: list[Any]) -> tuple[str, ...]:
    """The strings that the types allow as they stand."""
    return tuple(
        word
        for kind in kinds
        if get_origin(kind) is Literal
        for word in get_args(kind)
        if isinstance(word, str)
    )


def tags_of(kinds: list[Any]) -> tuple[str, ...]:
    """Names of what a union tells apart: bare words, then the tags of its documents."""
    return words_of(kinds) + tuple(_tag_of(kind) for kind in kinds if is_struct(kind))


def label_code(labels: tuple[str, ...], value: Any) -> int:
    """The code of a field's value: a word, a switch, or a document by its tag."""
    if isinstance(value, Struct):
        value = _tag_of(type(value))
    if isinstance(value, bool):
        value = SWITCH[value]
    return ABSENT if value is None else 1 + labels.index(value)


def word_code(words: tuple[str, ...], word: str) -> int:
    """What a column of numbers holds for a word among them."""
    return -1 - words.index(word) if len(words) > 1 else 0


def _tag_of(kind: type[Struct]) -> str:
    """The name of a document among others: its tag, or the one word that its `kind` may be."""
    config = kind.__struct_config__
    if config.tag_field is not None:
        return str(config.tag)
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    return words_of(members(types[KIND]))[0]


def _of_struct(struct: type[Struct], place: _Place) -> list[Leaf]:
    return [leaf for field in msgspec.structs.fields(struct) for leaf in _of_field(field, place)]


def _of_field(field: FieldInfo, place: _Place) -> list[Leaf]:
    path = f"{place.above}{field.encode_name}"
    kinds = members(field.type)
    first = kinds[0]
    lists = [kind for kind in kinds if get_origin(kind) in {tuple, list}]
    if lists:
        inside = get_args(lists[0])[0]
        if is_struct(inside):
            return _of_struct(inside, _Place(f"{path}.", always=False, in_list=True))
        return [Leaf(path, "object", field.type, None)]
    structs = [kind for kind in kinds if is_struct(kind)]
    if structs:
        return _of_union(field, path, structs, place)
    if first in {int, float}:
        return [_number(field, path, place)]
    # A word that there is no choice of tells nothing.
    labels = SWITCH if first is bool else words_of(kinds)
    return [_label(field, path, labels, place)] if len(labels) > 1 else []


def _of_union(field: FieldInfo, path: str, structs: list[Any], place: _Place) -> list[Leaf]:
    kinds = members(field.type)
    one = len(kinds) == 1
    found = []
    if not one:
        leaf = _label(field, f"{path}.{KIND}", tags_of(kinds), place)
        found.append(leaf._replace(can_be_set=not words_of(kinds)))
    always = place.always and one and NoneType not in _parts(field.type)
    for struct in structs:
        found.extend(_of_struct(struct, _Place(f"{path}.", always=always, in_list=False)))
    return found


def _label(field: FieldInfo, path: str, labels: tuple[str, ...], place: _Place) -> Leaf:
    code = label_code(labels, field.default) if place.always and not field.required else ABSENT
    return Leaf(path, "int64", field.type, code, labels=labels)


def _number(field: FieldInfo, path: str, place: _Place) -> Leaf:
    kinds = members(field.type)
    whole = kinds[0] is int
    can_lack = NoneType in _parts(field.type) or not (place.always or place.in_list)
    words = words_of(kinds)
    if words and not field.required and field.default in words:
        absent: Any = word_code(words, field.default)
    elif place.in_list:
        absent = NO_COUNT if whole else FULL_SPEED
    elif can_lack:
        absent = math.nan
    else:
        absent = 0 if field.required else field.default
    return Leaf(
        path,
        # Where a whole number may be absent the column holds floats: they have NaN.
        "int64" if whole and not can_lack else "float64",
        field.type,
        absent,
        is_whole=whole,
        words=words,
        in_list=place.in_list,
    )


def _parts(annotation: Any) -> list[Any]:
    """The types of a union, however nested and annotated."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return [kind for part in get_args(annotation) for kind in _parts(part)]
    return [annotation]
