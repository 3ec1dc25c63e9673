"""Strict decoding of JSON builtins into documents, with every fault named, not only the first."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from service.errors import FieldFault, InvalidError
from service.model.decoding import escaped, problems_of, shown

__all__ = ["MAX_FAULTS", "MAX_NUMBER", "decode_document", "escaped", "faults_of", "shown"]

T = TypeVar("T")

MAX_FAULTS = 1_000
# Of what is counted: both databases store it as an integer, and nothing of ours has so many.
MAX_NUMBER = 2**31 - 1


def decode_document(value: Any, kind: type[T], *, pointer: str = "") -> T:
    """Convert builtins strictly (`"8"` is no 8); raises `InvalidError` with all faults.

    Pointers begin with `pointer`, the place of `value` in what the caller has sent.
    """
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        faults = list(islice(faults_of(value, kind, pointer=pointer), MAX_FAULTS))
    detail = f"{len(faults)} values are invalid"
    if len(faults) == MAX_FAULTS:
        detail = f"{MAX_FAULTS} values or more are invalid; the first {MAX_FAULTS} are listed"
    raise InvalidError(faults[0].detail if len(faults) == 1 else detail, errors=faults)


def faults_of(value: Any, kind: Any, *, pointer: str = "") -> Iterator[FieldFault]:
    """Yield the faults of `value` as a `kind`; nothing when it is valid."""
    for problem in problems_of(value, kind, pointer=pointer):
        yield FieldFault(pointer=problem.pointer, code=problem.code, detail=problem.detail)
