"""What a caller may ask of stored results: filters, order, and their reading from text."""

from datetime import datetime
from typing import Annotated, Literal, cast
from uuid import UUID

from msgspec import Meta, Struct

from service.errors import MalformedError
from service.jobs.documents import MAX_NUMBER
from service.jobs.stored_inputs import column_of, is_stored_input
from service.model.inputs import INPUT_LABELS, input_words
from service.model.leaves import word_code
from service.model.results import COLUMNS

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "is_null"]
OPERATORS: tuple[Operator, ...] = ("eq", "ne", "lt", "le", "gt", "ge", "is_null")
COST_COLUMN = "cost_of_loss"
POSITION_COLUMNS = ("point", "item")
MAX_FILTERS = 20
MAX_ORDERS = 5


class ResultFilters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters and order of a list of results."""

    batch: Annotated[UUID, Meta(description="Only this batch.")] | None = None
    profile: (
        Annotated[str, Meta(max_length=80, description="Profile `slug`, or `slug@revision`.")]
        | None
    ) = None
    name: Annotated[str, Meta(max_length=200, description="Scenario name.")] | None = None
    created_after: (
        Annotated[datetime, Meta(tz=True, description="Only batches made after this moment.")]
        | None
    ) = None
    created_before: (
        Annotated[datetime, Meta(tz=True, description="Only batches made before this moment.")]
        | None
    ) = None
    num_gpus_min: (
        Annotated[
            int, Meta(ge=1, le=MAX_NUMBER, description="Only clusters of at least so many GPUs.")
        ]
        | None
    ) = None
    num_gpus_max: (
        Annotated[
            int, Meta(ge=1, le=MAX_NUMBER, description="Only clusters of at most so many GPUs.")
        ]
        | None
    ) = None
    where: Annotated[
        tuple[Annotated[str, Meta(max_length=200)], ...],
        Meta(
            max_length=MAX_FILTERS,
            description="`path:op:value` with eq ne lt le gt ge, or `path:is_null:true|false`, on "
            "any axis path or result column; may be repeated.",
            examples=[["efficiency_fraction:lt:0.9"]],
        ),
    ] = ()
    order_by: Annotated[
        str,
        Meta(
            max_length=500,
            description="Columns or axis paths, `-` for falling, e.g. "
            "`-gpu_hours_lost,num_gpus`; `cost_of_loss` needs `currency` and the scope "
            "costs:read.",
            examples=["-gpu_hours_lost"],
        ),
    ] = ""
    pricing: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_NUMBER,
            description="Which pricing of the batches: 1 is that of when they ended, higher "
            "numbers are repricings and need the scope costs:read.",
        ),
    ] = 1
    currency: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Z]{3}$",
                description="Only batches priced in it; needed to sort or filter by cost. "
                "Needs the scope costs:read.",
            ),
        ]
        | None
    ) = None


class ResultsQuery(ResultFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of results."""

    page_size: Annotated[
        int, Meta(ge=1, le=MAX_NUMBER, description="50 by default; more than 1 000 becomes 1 000.")
    ] = 50
    page_token: Annotated[str, Meta(max_length=4000, description="Of the page before.")] | None = (
        None
    )


class Condition(Struct, frozen=True, kw_only=True):
    """One filter on a stored column."""

    column: str
    operator: Operator
    value: float | bool | str


class Sorting(Struct, frozen=True, kw_only=True):
    """One column of the order."""

    column: str
    descending: bool


KINDS = {column.name: column for column in COLUMNS}
LABELS = {**INPUT_LABELS, **{column.name: column.labels for column in COLUMNS if column.labels}}
SWITCHES = {"true": 1.0, "false": 0.0}


def read_conditions(filters: ResultFilters) -> list[Condition]:
    """All filters on columns; raises `MalformedError` naming the faulty one."""
    conditions = [_read_condition(text) for text in filters.where]
    for value, operator in ((filters.num_gpus_min, "ge"), (filters.num_gpus_max, "le")):
        if value is not None:
            conditions.append(
                Condition(
                    column="num_gpus", operator=cast("Operator", operator), value=float(value)
                )
            )
    return conditions


def read_order(filters: ResultFilters) -> list[Sorting]:
    """The order; raises `MalformedError` for a repeated column or too many of them."""
    parts = [part.strip() for part in filters.order_by.split(",") if part.strip()]
    order = [
        Sorting(
            column=column_of(part.removeprefix("-")),
            descending=part.startswith("-"),
        )
        for part in parts
    ]
    if len(order) > MAX_ORDERS:
        raise MalformedError(f"order_by names {len(order)} columns, but {MAX_ORDERS} is the limit")
    if len({sorting.column for sorting in order}) < len(order):
        raise MalformedError(f"order_by names a column twice: {filters.order_by}")
    return order


def check_columns(names: set[str], stored: set[str], currency: str | None) -> None:
    """Refuse names that no stored batch could have; raises `MalformedError` naming them."""
    known = stored | set(KINDS) | {COST_COLUMN, *POSITION_COLUMNS}
    unknown = sorted(name for name in names if name not in known and not is_stored_input(name))
    if unknown:
        raise MalformedError(
            f"unknown column {unknown[0]!r}: use a result column (see the documentation) or "
            "an axis path such as num_gpus or variability.transient.cv"
        )
    if COST_COLUMN in names and currency is None:
        raise MalformedError("cost_of_loss can be sorted and filtered only with currency=")


def _read_condition(text: str) -> Condition:
    parts = text.split(":", 2)
    if len(parts) != 3 or parts[1] not in OPERATORS:  # path, operator, value
        raise MalformedError(
            f"where={text!r} is not path:op:value with op one of {' '.join(OPERATORS)}"
        )
    path, operator, value = parts
    path = column_of(path, is_null=operator == "is_null")
    return Condition(
        column=path,
        operator=cast("Operator", operator),
        value=_read_value(text, path, operator, value),
    )


def _read_value(text: str, path: str, operator: str, value: str) -> float | bool | str:
    if operator == "is_null":
        if value not in {"true", "false"}:
            raise MalformedError(f"where={text!r}: is_null takes true or false")
        return value == "true"
    if path in LABELS:
        if value not in LABELS[path] or operator not in {"eq", "ne"}:
            raise MalformedError(
                f"where={text!r}: {path} is compared by eq or ne with {', '.join(LABELS[path])}"
            )
        return value
    if path in KINDS and KINDS[path].kind == "bool":
        if value not in SWITCHES or operator not in {"eq", "ne"}:
            raise MalformedError(f"where={text!r}: {path} is compared by eq or ne with true, false")
        return SWITCHES[value]
    words = input_words(path)
    if words:
        return _read_word(text, operator, value, words)
    try:
        number = float(value)
    except ValueError as error:
        raise MalformedError(f"where={text!r}: {value!r} is no number") from error
    if number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
        raise MalformedError(f"where={text!r}: {value!r} is no finite number")
    return number


def _read_word(text: str, operator: str, value: str, words: tuple[str, ...]) -> float:
    """A word, or a whole number from 0, as their column holds them."""
    is_number = value.isascii() and value.isdecimal()
    if operator not in {"eq", "ne"} or not (is_number or value in words):
        path = text.partition(":")[0]
        raise MalformedError(
            f"where={text!r}: {path} is compared by eq or ne with {', '.join(words)} or a whole "
            "number"
        )
    return float(value) if is_number else float(word_code(words, value))
