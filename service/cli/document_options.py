"""Options of a command that are the fields of a document: its names, bounds and descriptions."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import rich_click as click
from msgspec import Struct, inspect

from service.cli.faults import refuse
from service.cli.finite_numbers import FiniteRange
from service.errors import InvalidError
from service.jobs.documents import decode_document

D = TypeVar("D", bound=Struct)
Command = TypeVar("Command", bound=Callable[..., Any])
SOURCE = "the command"


def options_of(kind: type[Struct]) -> Callable[[Command], Command]:
    """An option for each field, in its order; those without a default are required."""

    def decorate(command: Command) -> Command:
        described = inspect.type_info(kind)
        if not isinstance(described, inspect.StructType):
            raise TypeError(f"{kind!r} is no document")
        for field in reversed(described.fields):
            command = _option(field)(command)
        return command

    return decorate


def document_of(kind: type[D], given: dict[str, Any]) -> D:
    """The document of what was given; ends the program with every fault."""
    try:
        return decode_document({k: v for k, v in given.items() if v is not None}, kind)
    except InvalidError as error:
        refuse(SOURCE, error.errors)


def _option(field: inspect.Field) -> Callable[[Command], Command]:
    schemas, described = _parts(field.type)
    flag = f"--{field.name.replace('_', '-')}"
    help_text = " ".join(said for said in described if said)
    if field.default not in {msgspec.NODEFAULT, None}:
        shown = f"{field.default:.6g}" if isinstance(field.default, float) else field.default
        help_text = f"{help_text} Default: {shown}.".strip()
    # A default that is left out is the document's own.
    if any(isinstance(part, inspect.BoolType) for part in schemas):
        return click.option(f"{flag}/--no{flag[1:]}", field.name, default=None, help=help_text)
    is_whole = any(isinstance(part, inspect.IntType) for part in schemas)
    return click.option(
        flag,
        field.name,
        type=int if is_whole else FiniteRange(),
        required=field.required,
        metavar="NUMBER" if is_whole else _unit(field.name),
        help=help_text or None,
    )


def _parts(kind: inspect.Type) -> tuple[list[inspect.Type], list[str]]:
    """The plain types of a field, and what is said of it, from outside in."""
    if isinstance(kind, inspect.Metadata):
        schemas, described = _parts(kind.type)
        own = (kind.extra_json_schema or {}).get("description", "")
        return schemas, [own, *described]
    if isinstance(kind, inspect.UnionType):
        found = [_parts(part) for part in kind.types]
        return [part for parts, _ in found for part in parts], [
            s for _, said in found for s in said
        ]
    return [kind], []


def _unit(name: str) -> str:
    return "MS" if name.endswith("_ms") else "NUMBER"
