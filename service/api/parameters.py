"""Strict reading of query and path parameters into Structs, one field per parameter."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from service.api.contract import ApiRequest
from service.api.transactions import settings_of
from service.errors import MalformedError, NotFoundError
from service.jobs.documents import faults_of, shown

T = TypeVar("T", bound=msgspec.Struct)

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


class ParameterFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of a parameter, which has a name instead of a place in the body."""

    parameter: str
    code: str
    detail: str
    pointer: str = ""


def read_query(request: ApiRequest, kind: type[T]) -> T:
    """The query as a document.

    Raises `MalformedError` (400) for a query that is too long, and else naming each unknown,
    repeated, missing or malformed parameter. A field of type `tuple[X, ...]` takes all values of
    a repeated parameter.
    """
    query: bytes = request.scope["query_string"]
    limits = settings_of(request).limits
    if len(query) > limits.query_bytes:
        raise MalformedError(
            f"the query has {len(query)} bytes, but the limit is {limits.query_bytes}"
        )
    pairs = _pairs(query)
    refuse_many(pairs, limits.filters)
    return _read(pairs, kind)


def refuse_many(pairs: Iterable[tuple[str, Any]], limit: int) -> None:
    """Refuse a parameter that is repeated too often, such as a filter (400)."""
    for name, times in Counter(name for name, _ in pairs).items():
        if times > limit:
            detail = f"it stands {times} times, but the limit is {limit}"
            raise MalformedError(
                f"parameter {shown(name)}: {detail}", errors=[_fault(name, "too_many", detail)]
            )


def refuse_query(request: ApiRequest) -> None:
    """Refuse any query parameter, for an operation that has none."""
    if request.scope["query_string"]:
        read_query(request, _NoParameters)


def read_path(request: ApiRequest, kind: type[T]) -> T:
    """The path parameters as a document; a malformed one is a `NotFoundError` like an unknown."""
    pairs = [(name, str(value)) for name, value in request.path_params.items()]
    try:
        return _read(pairs, kind)
    except MalformedError as error:
        raise NotFoundError(f"nothing is stored at {request.url.path}") from error


class _NoParameters(msgspec.Struct, frozen=True, kw_only=True):
    """An operation without query parameters."""


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=200
        )
    except ValueError as error:
        raise MalformedError(f"the query cannot be read: {error}") from None
    for name, value in pairs:
        if "\0" in name + value:
            raise MalformedError(
                f"the parameter {shown(name)} holds the character U+0000, which is refused",
                errors=[_fault(name, "null_character", "the character U+0000 is refused")],
            )
    return pairs


def _read(pairs: list[tuple[str, str]], kind: type[T]) -> T:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, list[str]] = {}
    faults: list[ParameterFault] = []
    for name, text in pairs:
        if name in fields:
            values.setdefault(name, []).append(text)
        else:
            known = ", ".join(fields) or "none"
            faults.append(
                _fault(name, "unknown_parameter", f"no such parameter; known are {known}")
            )
    document: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in values:
            if field.required:
                faults.append(_fault(name, "missing_parameter", "it is required"))
            continue
        found = _value(name, values[name], field.type)
        if isinstance(found, ParameterFault):
            faults.append(found)
        else:
            document[name] = found
    if faults:
        raise MalformedError(
            "; ".join(f"parameter {fault.parameter}: {fault.detail}" for fault in faults[:5]),
            errors=faults,
        )
    return msgspec.convert(document, kind, strict=True)


def _value(name: str, texts: list[str], kind: Any) -> Any:
    """The builtins of a parameter, checked against its type, or its first fault."""
    inner = _bare(kind)
    if get_origin(inner) is tuple:
        value: Any = [_scalar(text, _bare(get_args(inner)[0])) for text in texts]
    elif len(texts) > 1:
        return _fault(name, "repeated_parameter", f"it stands {len(texts)} times")
    else:
        value = _scalar(texts[0], inner)
    fault = next(faults_of(value, kind), None)
    return value if fault is None else _fault(name, fault.code, fault.detail)


def _scalar(text: str, kind: Any) -> Any:
    """The JSON value that a text stands for; the text itself when it stands for none."""
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    if kind is int and _INTEGER.fullmatch(text):
        return int(text)
    if kind is float and _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def _bare(kind: Any) -> Any:
    """The type without its constraints and without None."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _bare(get_args(kind)[0])
    if origin in {Union, UnionType}:
        members = [member for member in get_args(kind) if member is not NoneType]
        return _bare(members[0]) if len(members) == 1 else kind
    return kind


def _fault(name: str, code: str, detail: str) -> ParameterFault:
    return ParameterFault(parameter=name, code=code, detail=detail)
