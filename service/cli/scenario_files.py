"""Files of `trainard evaluate` and `trainard solve`: JSON, with every fault's place in the file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

import msgspec

from service.cli.faults import refuse
from service.errors import Fault, FieldFault, InvalidError
from service.jobs.documents import decode_document
from service.model.problems import InvalidScenario

T = TypeVar("T")


def read_document(file: BinaryIO, kind: type[T]) -> T:
    """The file as a document; ends the program with every fault of it."""
    return decoded(file, read_json(file), kind)


def read_json(file: BinaryIO) -> Any:
    """The file as builtins; ends the program where it is no JSON."""
    try:
        return msgspec.json.decode(file.read())
    except (msgspec.DecodeError, RecursionError) as error:
        detail = f"this is no JSON: {error}"
        refuse(name_of(file), [FieldFault(pointer="", code="malformed_json", detail=detail)])


def decoded(file: BinaryIO, value: Any, kind: type[T]) -> T:
    """Builtins of the file as a document; ends the program with every fault."""
    try:
        return decode_document(value, kind)
    except InvalidError as error:
        refuse(name_of(file), error.errors)


def placed_faults(
    error: InvalidScenario, prefix: str, *, apart: tuple[str, ...] = ()
) -> list[Fault]:
    """The faults with their places in the file: below `prefix`, but for those that are `apart`."""
    return [
        FieldFault(
            pointer=fault.pointer if fault.pointer.startswith(apart) else prefix + fault.pointer,
            code=fault.code,
            detail=fault.detail,
        )
        for fault in error.problems
    ]


def refuse_file(file: BinaryIO, faults: Iterable[Fault]) -> NoReturn:
    """End the program with the file's faults."""
    refuse(name_of(file), faults)


def name_of(file: BinaryIO) -> str:
    """What the file is called in messages."""
    return str(file.name) if isinstance(file.name, str | Path) else "standard input"
