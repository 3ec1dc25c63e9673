"""Strict decoding of JSON builtins into documents, with every fault named, not only the first.

msgspec stops at the first fault. A document that it refuses is taken apart along its type's
annotations, and each part that is refused becomes one fault with its RFC 6901 pointer, the
value and the rule.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from service.model.problems import Problem

SHOWN_CHARACTERS = 60
MAX_PARTS = 10_100
"""Of one array that faults are looked for in: the longest that is allowed has 10 001."""

_PLACE = re.compile(r" - at `(?:key` in `)?\$[^`]*`$")
_CODES = (
    (re.compile(r"matching regex"), "wrong_pattern"),
    (re.compile(r"of length"), "wrong_length"),
    (re.compile(r"Invalid (enum )?value"), "not_one_of"),
    (re.compile(r"<=|>=|<|>|multiple of|out of range"), "out_of_range"),
    (re.compile(r"^Expected .*, got "), "wrong_type"),
)


def problems_of(value: Any, kind: Any, *, pointer: str = "") -> Iterator[Problem]:
    """Yield the faults of `value` as a `kind`; nothing when it is valid."""
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        inner = False
        for fault in _inner_faults(value, _chosen(value, kind), pointer):
            inner = True
            yield fault
        if inner:
            yield from _length_faults(value, kind, pointer)
        else:
            yield _fault(error, value, kind, pointer)


def escaped(part: str | int) -> str:
    """One part of a JSON pointer (RFC 6901, section 3)."""
    return str(part).replace("~", "~0").replace("/", "~1")


def shown(value: Any) -> str:
    """The value as it was sent, shortened."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    try:
        text = msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):
        # Half of a surrogate pair, thousands of digits, hundreds of nested arrays.
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def _inner_faults(value: Any, kind: Any, pointer: str) -> Iterator[Problem]:
    origin, arguments = get_origin(kind), get_args(kind)
    if _is_struct(kind) and isinstance(value, dict):
        yield from _tag_faults(value, [kind], pointer)
        yield from _struct_faults(value, kind, pointer)
    elif origin in {Union, UnionType} and isinstance(value, dict):
        yield from _tag_faults(
            value, [member for member in arguments if _is_struct(member)], pointer
        )
    elif origin in {list, tuple} and isinstance(value, list):
        for position, part in enumerate(islice(value, MAX_PARTS)):
            yield from problems_of(part, arguments[0], pointer=f"{pointer}/{position}")
    elif origin is dict and isinstance(value, dict):
        for name, part in value.items():
            place = f"{pointer}/{escaped(name)}"
            yield from problems_of(name, arguments[0], pointer=place)
            yield from problems_of(part, arguments[1], pointer=place)


def _struct_faults(
    value: dict[str, Any], kind: type[msgspec.Struct], pointer: str
) -> Iterator[Problem]:
    config = kind.__struct_config__
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in value:
        if config.forbid_unknown_fields and name not in fields and name != config.tag_field:
            yield Problem(
                pointer=f"{pointer}/{escaped(name)}",
                code="unknown_field",
                detail=f"{shown(name)} is no known field; known are {', '.join(fields)}",
            )
    for name, field in fields.items():
        place = f"{pointer}/{escaped(name)}"
        if name in value:
            yield from problems_of(value[name], field.type, pointer=place)
        elif field.required:
            yield _missing(name, place)


def _missing(name: str, pointer: str) -> Problem:
    return Problem(pointer=pointer, code="missing_field", detail=f"{name} is required, but missing")


def _tag_faults(
    value: dict[str, Any], kinds: Sequence[type[msgspec.Struct]], pointer: str
) -> Iterator[Problem]:
    """The field that says which of `kinds` the value is, where it says none of them."""
    tags = {kind.__struct_config__.tag: kind.__struct_config__.tag_field for kind in kinds}
    name = next(iter(tags.values()), None)
    if name is None or value.get(name) in [*tags]:
        return
    place = f"{pointer}/{escaped(name)}"
    if name in value:
        detail = f"{shown(value[name])} is refused: must be one of {', '.join(map(shown, tags))}"
        yield Problem(pointer=place, code="not_one_of", detail=detail)
    elif len(tags) > 1:
        # Where there is no choice, msgspec takes the tag as given.
        yield _missing(name, place)


def _length_faults(value: Any, kind: Any, pointer: str) -> Iterator[Problem]:
    """An array whose length is refused beside some of its parts."""
    for rule in getattr(kind, "__metadata__", ()):
        most = rule.max_length
        if isinstance(value, list) and most is not None and len(value) > most:
            detail = f"{len(value)} values are refused: expected at most {most}"
            yield Problem(pointer=pointer, code="wrong_length", detail=detail)


def _chosen(value: Any, kind: Any) -> Any:
    """The member of a union that the value means to be, else the type as it is."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _chosen(value, get_args(kind)[0])
    if origin not in {Union, UnionType}:
        return kind
    members = [_chosen(value, member) for member in get_args(kind) if member is not NoneType]
    if len(members) == 1:
        return members[0]
    if isinstance(value, list):
        meant = [member for member in members if get_origin(member) in {list, tuple}]
    else:
        meant = [member for member in members if _is_struct(member) and isinstance(value, dict)]
    if len(meant) == 1:
        # The others are bare words or numbers.
        return meant[0]
    for member in members:
        if _is_struct(member) and isinstance(value, dict):
            config = member.__struct_config__
            if config.tag_field is not None and value.get(config.tag_field) == config.tag:
                return member
    return kind


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _fault(error: msgspec.ValidationError, value: Any, kind: Any, pointer: str) -> Problem:
    message = _PLACE.sub("", str(error))
    code = next((code for pattern, code in _CODES if pattern.search(message)), "wrong_format")
    rule = message.replace("`", "")
    schema = msgspec.json.schema(kind)
    allowed = _literals(schema) + _numbers(schema)
    is_number = isinstance(value, int | float) and code == "out_of_range"
    if _literals(schema) and not is_number:
        rule = f"must be one of {', '.join(allowed)}"
    return Problem(
        pointer=pointer, code=code, detail=f"{shown(value)} is refused: {rule[0].lower()}{rule[1:]}"
    )


def _literals(schema: dict[str, Any]) -> list[str]:
    """The JSON values that a Literal or an Enum allows."""
    options = schema.get("enum") or next(
        (part["enum"] for part in schema.get("anyOf", ()) if "enum" in part), ()
    )
    return [shown(option) for option in options]


def _numbers(schema: dict[str, Any]) -> list[str]:
    """What numbers are allowed beside words."""
    kinds = [part.get("type") for part in schema.get("anyOf", ())]
    names = {"integer": "a whole number", "number": "a number"}
    return [names[kind] for kind in kinds if kind in names]
