"""Text tables for terminals, files and pipes: aligned, with the unit in every header."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from service.model.results import COLUMNS, Column
from service.reports.compare import ComparisonRow
from service.reports.digits import (
    NOTHING,
    amount,
    gpu_hours,
    milliseconds,
    percent,
    signed,
    whole,
)
from service.reports.ideals import LOST
from service.reports.money import Money

Value = float | int | bool | str | None


class Heading(Struct, frozen=True):
    """The title of a column, with its unit, and whether it holds words or numbers."""

    title: str
    words: bool = False


class LossRow(Struct, frozen=True, kw_only=True):
    """A line of the loss table. `variability` is a label, such as `normal, cv 5 %`."""

    profile: str
    num_gpus: int
    variability: str
    efficiency_fraction: float | None
    gpu_hours_lost: float | None
    cost_of_loss: Money | None = None


def text_table(headings: Sequence[Heading], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart; words flush left, numbers right.

    No line ends in spaces; the table does not end in a line break.
    """
    lines = [[heading.title for heading in headings], *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(headings))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if heading.words else cell.rjust(width)
            for heading, cell, width in zip(headings, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def loss_table(rows: Sequence[LossRow], *, period_days: int = 30) -> str:
    """What is lost over cluster sizes; the cost has a column where any row has one."""
    headings = [
        Heading("profile", words=True),
        Heading("GPUs"),
        Heading("variability", words=True),
        Heading("efficiency [%]"),
        Heading(f"lost in {period_days} days [GPU-hours]"),
    ]
    lines = [
        [
            row.profile,
            whole(row.num_gpus),
            row.variability,
            percent(row.efficiency_fraction),
            gpu_hours(row.gpu_hours_lost),
        ]
        for row in rows
    ]
    if any(row.cost_of_loss for row in rows):
        headings.append(Heading("cost of the loss"))
        for line, row in zip(lines, rows, strict=True):
            line.append(_money(row.cost_of_loss))
    return text_table(headings, lines)


def comparison_table(rows: Sequence[ComparisonRow], *, period_days: int = 30) -> str:
    """GPU-hours lost: past, new, difference, relative; costs where any row has their difference.

    A star marks rows whose ideal step moved: their difference is not waiting alone.
    """
    keys = list(dict.fromkeys(name for row in rows for name in row.key))
    headings = [
        *(Heading(key, words=key in {"name", "profile"}) for key in keys),
        Heading(f"past, {period_days} days [GPU-hours]"),
        Heading("new [GPU-hours]"),
        Heading("difference [GPU-hours]"),
        Heading("relative [%]"),
    ]
    lines = [
        [
            *(_plain(row.key.get(key)) for key in keys),
            gpu_hours(row.past.get(LOST)),
            gpu_hours(row.new.get(LOST)),
            signed(gpu_hours(row.difference.get(LOST))) + (" *" if row.ideal_changed else ""),
            signed(percent(row.relative.get(LOST))),
        ]
        for row in rows
    ]
    if any(row.cost_of_loss.difference for row in rows):
        headings += [Heading("cost difference"), Heading("by volume"), Heading("by price")]
        for line, row in zip(lines, rows, strict=True):
            change = row.cost_of_loss
            parts = (change.difference, change.volume_effect, change.price_effect)
            line += [signed(_money(part)) for part in parts]
    note = "\n* the ideal step moved too" if any(row.ideal_changed for row in rows) else ""
    return text_table(headings, lines) + note


def result_table(result: Mapping[str, Value]) -> str:
    """One evaluated scenario: every output column that it has, its unit and what it says."""
    headings = [
        Heading("result", words=True),
        Heading("value"),
        Heading("unit", words=True),
        Heading("meaning", words=True),
    ]
    lines = [
        [column.name, shown, unit, column.sentence]
        for column in COLUMNS
        if column.name in result
        for shown, unit in [shown_value(column, result[column.name])]
    ]
    return text_table(headings, lines)


def shown_value(column: Column, value: Value) -> tuple[str, str]:
    """A value for the eye and the unit that it is then in: fractions are shown as percentages."""
    unit = "%" if column.name.endswith("_fraction") else column.unit
    if value is None or isinstance(value, bool | str):
        return _plain(value), unit
    return _FORMATS.get(unit, _plain)(value), unit


_FORMATS: Mapping[str, Callable[[float], str]] = {
    "%": percent,
    "ms": milliseconds,
    "GPU-hours": gpu_hours,
}


def _plain(value: object) -> str:
    """Keys and labels: numbers with their own digits, whole values as they are."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int():
            return whole(value)
        case float():
            return f"{value:.6g}"
        case dict():
            return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    return str(value)


def _money(money: Money | None) -> str:
    return NOTHING if money is None else f"{amount(money.amount)} {money.currency}"
