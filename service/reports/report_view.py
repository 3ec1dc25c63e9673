"""What a report shows, in words: tables and charts of one language, for any template."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from service.reports.charts import Bar, printable
from service.reports.language import Words
from service.reports.loss_report import Headline, LossReport, ProfileLoss, ReportItem, VolumeCause
from service.reports.money import CostStatus, Money

Align = Literal["text", "number"]
Mark = Literal["", "worse", "better", "quiet", "strong"]
MAX_ITEMS = 50
# What is more often than so many times is "more than" that
MANY_TIMES = 1_000
# The end of a detail that names no more inputs
_AND_MORE = re.compile(r"(?P<listed>.*) and (?P<count>\d+) more", re.ASCII)


class Cell(Struct, frozen=True):
    """What stands in a table: its text, a small note below, and how it is marked.

    `code` is the name of an input, as files have it: it stands before the note.
    """

    text: str
    note: str = ""
    mark: Mark = ""
    code: str = ""


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
    return printable(item).strip() or printable(custom_id)


def title_of(report: LossReport, words: Words) -> str:
    """The name, and the slot of its run in the wall time of its zone."""
    name = label(report.name, str(report.report_id))
    run = report.run
    if run is None:
        return name
    moment = words.numbers.local(run.local_time)
    return words.say("title", name=name, moment=moment, zone=run.zone)


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
    if abs(fraction) > MANY_TIMES:
        key = "many_times" if fraction > 0 else "many_times_less"
        return words.say(key, count=words.numbers.count(MANY_TIMES))
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
    detail = printable(words.param(cause.detail)).replace(" -> ", " → ")
    more = _AND_MORE.fullmatch(detail)
    if more:
        count = words.numbers.count(int(more["count"]))
        detail = words.say("and_more", listed=more["listed"], count=count)
    return Cell(words.name("volume", cause.cause), note=detail)


def moved_input(words: Words, cause: VolumeCause) -> Cell:
    """The input and both its values."""
    if cause.path is None:
        return Cell(words.say("none"), mark="quiet")
    note = f"{_input(words, cause.past)} → {_input(words, cause.new)}"
    return Cell(words.input_name(cause.path), note=note, code=cause.path)


def setting_of(words: Words, setting: str) -> str:
    """The setting of a remedy ("count 16, every 4") in the reader's words and numbers."""
    return ", ".join(_setting(words, part) for part in setting.split(", "))


def _setting(words: Words, part: str) -> str:
    name, _, value = part.partition(" ")
    read = _number(value)
    if read is None:
        shown = printable(value)
    else:
        # 4 digits of a large number come as 1e+04.
        shown = words.numbers.exact(int(read) if read == int(read) else read)
    return f"{words.name('setting', name)} {shown}".rstrip()


def _input(words: Words, value: str | None) -> str:
    """A value of an input, which comes as JSON."""
    if not value:
        return words.say("none")
    read = _number(value)
    return printable(value) if read is None else words.numbers.exact(read)


def _number(text: str) -> int | float | None:
    """The number that stands there as JSON; None where it is no finite number."""
    try:
        read: Any = json.loads(text)
    except ValueError:
        return None
    is_number = isinstance(read, int | float) and not isinstance(read, bool)
    return read if is_number and math.isfinite(read) else None


def on_one_side(words: Words, counts: Headline | ProfileLoss) -> str:
    """How many items have numbers on one side only, and why."""
    numbers = {
        "appeared": counts.items_appeared,
        "gone": counts.items_gone,
        "failed": counts.items_failed,
        "returned": counts.items_returned,
    }
    return ", ".join(
        words.counted(f"num_{kind}", number) for kind, number in numbers.items() if number
    )


def with_numbers(report: LossReport) -> list[ReportItem]:
    """The items that have numbers, those that lose most first."""
    known = [item for item in report.items if item.gpu_hours_lost is not None]
    return sorted(known, key=lambda item: (-(item.gpu_hours_lost or 0.0), item.custom_id))


def is_withheld(report: LossReport) -> bool:
    """Whether the reader may see no money."""
    return report.headline.cost_status is CostStatus.WITHHELD
