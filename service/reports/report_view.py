"""What a report shows, in words: tables and charts of one language, for any template."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from service.reports.charts import Bar, printable
from service.reports.language import Words
from service.reports.loss_report import LossReport, ReportItem, VolumeCause
from service.reports.money import CostStatus, Money

Align = Literal["text", "number"]
Mark = Literal["", "worse", "better", "quiet", "strong"]
MAX_ITEMS = 50
_WHOLE = 1e-9


class Cell(Struct, frozen=True):
    """What stands in a table: its text, a small note below, and how it is marked."""

    text: str
    note: str = ""
    mark: Mark = ""


class TableHead(Struct, frozen=True):
    """A column's heading."""

    text: str
    align: Align = "number"


class Table(Struct, frozen=True):
    """A table with its caption; the first cell of a row is its heading."""

    caption: str
    heads: Sequence[TableHead]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


class Legend(Struct, frozen=True):
    """A colour of a chart and what it means."""

    tone: str
    text: str


class Figure(Struct, frozen=True):
    """A chart: bars, or pairs of bars (before, now), and its words."""

    name: str
    title: str
    description: str
    legend: Sequence[Legend]
    bars: Sequence[Bar]
    is_connected: bool = False
    is_paired: bool = False


def label(item: str, custom_id: str) -> str:
    """The name, or the item's id where it has none."""
    return printable(item).strip() or custom_id


def hours(words: Words, amount: float | None, error: float | None = None) -> str:
    """GPU-hours without the unit; a dash where there are none."""
    return words.say("none") if amount is None else words.numbers.hours(amount, error)


def difference(words: Words, amount: float | None, error: float | None = None) -> Cell:
    """A change of GPU-hours: marked, since less lost is better."""
    if amount is None:
        return Cell(words.say("none"), mark="quiet")
    return Cell(words.numbers.signed_hours(amount, error), mark=direction(amount))


def percent(words: Words, fraction: float | None, *, signed: bool = False) -> str:
    """A percentage, with its sign where it is a change."""
    if fraction is None:
        return words.say("none")
    return words.numbers.signed_percent(fraction) if signed else words.numbers.percent(fraction)


def money(
    words: Words, amount: Money | None, status: CostStatus | str, *, signed: bool = False
) -> Cell:
    """Money, or why there is none: never blank."""
    if amount is None:
        return Cell(words.name("cost_status", str(status)), mark="quiet")
    if not signed:
        return Cell(words.numbers.money(amount))
    text = words.numbers.signed_money(amount)
    return Cell(text, mark=direction(float(amount.amount)))


def direction(change: float) -> Mark:
    """Less lost is better."""
    return "worse" if change > 0 else "better" if change < 0 else ""


def volume_reason(words: Words, cause: VolumeCause) -> Cell:
    """What moved, with its detail below."""
    return Cell(words.name("volume", cause.cause), note=cause.detail.replace(" -> ", " → "))


def moved_input(words: Words, cause: VolumeCause) -> Cell:
    """The input and both its values."""
    if cause.path is None:
        return Cell(words.say("none"), mark="quiet")
    none = words.say("none")
    return Cell(cause.path, note=f"{cause.past or none} → {cause.new or none}")


def with_numbers(report: LossReport) -> list[ReportItem]:
    """The items that have numbers, those that lose most first."""
    known = [item for item in report.items if item.gpu_hours_lost is not None]
    return sorted(known, key=lambda item: (-(item.gpu_hours_lost or 0.0), item.custom_id))


def is_withheld(report: LossReport) -> bool:
    """Whether the reader may see no money."""
    return report.headline.cost_status is CostStatus.WITHHELD
