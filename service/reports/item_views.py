"""Items, profiles and movers of a report: their charts and tables."""

from collections.abc import Callable

from msgspec import structs

from service.reports.charts import Bar, Tone
from service.reports.headline_view import past_name
from service.reports.language import Words
from service.reports.loss_report import LossReport, Mover, ProfileLoss, ReportItem
from service.reports.report_view import (
    MAX_ITEMS,
    Cell,
    Figure,
    Legend,
    Table,
    TableHead,
    difference,
    hours,
    is_withheld,
    label,
    money,
    on_one_side,
    percent,
    volume_reason,
    with_numbers,
)
from service.reports.volume import MONTH_DAYS

MAX_BARS = 12
# Kinds of movers that one side has, but without numbers: nobody knows what they lose there.
WITHOUT_NUMBERS = ("failed", "returned")


def movers_figure(report: LossReport, words: Words) -> Figure | None:
    """What moved most, to the left what lost less and to the right what lost more."""
    movers = [mover for mover in report.movers if mover.difference_per_30_days][:MAX_BARS]
    if not movers:
        return None
    rows = [
        Bar(
            label(mover.name, mover.custom_id),
            0.0,
            mover.difference_per_30_days,
            _mover_text(words, mover),
            _tone(mover),
        )
        for mover in movers
    ]
    first = movers[0]
    return Figure(
        "movers",
        words.say("movers_chart"),
        words.say(
            "movers_desc",
            name=label(first.name, first.custom_id),
            hours=words.numbers.signed_hours(first.difference_per_30_days),
        ),
        _legend(words, {"loss": "worse", "gain": "better", "nominal": "one_side"}, rows),
        rows,
    )


def movers_table(report: LossReport, words: Words) -> Table | None:
    """The same with both values and the main cause."""
    if not report.movers:
        return None
    heads = [
        TableHead(words.say("item"), "text"),
        TableHead(words.say("past")),
        TableHead(words.say("new")),
        TableHead(words.say("difference")),
        TableHead(words.say("relative")),
        TableHead(words.say("cost_difference")),
        TableHead(words.say("main_cause"), "text"),
    ]
    why_none = _no_money(report)
    rows = [
        [
            _name_cell(words, mover.name, mover.custom_id, mover.profile, mover.kind),
            Cell(hours(words, mover.past_gpu_hours_lost_per_30_days)),
            Cell(hours(words, mover.new_gpu_hours_lost_per_30_days)),
            _unjudged(mover, difference(words, mover.difference_per_30_days)),
            Cell(percent(words, mover.relative, signed=True)),
            _unjudged(
                mover,
                money(words, mover.cost_difference_per_30_days, why_none(mover), signed=True),
            ),
            volume_reason(words, mover.main_cause)
            if mover.main_cause
            else Cell(words.say("none"), mark="quiet"),
        ]
        for mover in report.movers
    ]
    return Table(words.say("movers_table"), heads, rows)


def items_figure(report: LossReport, words: Words) -> Figure | None:
    """What loses most over its window, with the range of clusters where it is known."""
    losers = [item for item in with_numbers(report) if item.gpu_hours_lost][:MAX_BARS]
    if not losers:
        return None
    rows = [
        Bar(
            label(item.name, item.custom_id),
            0.0,
            item.gpu_hours_lost or 0.0,
            _lost_text(words, item),
            "loss" if (item.gpu_hours_lost or 0.0) > 0 else "gain",
            item.gpu_hours_lost_p10,
            item.gpu_hours_lost_p90,
        )
        for item in losers
    ]
    first = losers[0]
    legend = _legend(words, {"loss": "loss", "gain": "gain"}, rows)
    if any(row.low is not None for row in rows):
        legend.append(Legend("range", words.say("legend_range")))
    return Figure(
        "items",
        words.say("items_chart"),
        words.say("items_desc", name=rows[0].label, hours=hours(words, first.gpu_hours_lost)),
        legend,
        rows,
    )


def items_table(report: LossReport, words: Words) -> Table:
    """Up to 50 items, those that lose most first, then those without numbers.

    Loss and cost are of each item's window; what moved is compared on 30 days.
    """
    ordered = [*with_numbers(report), *(i for i in report.items if i.gpu_hours_lost is None)]
    heads = [
        TableHead(words.say("item"), "text"),
        TableHead(words.say("gpus")),
        TableHead(words.say("days")),
        TableHead(words.say("efficiency")),
        TableHead(words.say("lost")),
        TableHead(words.say("range")),
        TableHead(words.say("difference_30")),
        TableHead(words.say("cost")),
        TableHead(words.say("method"), "text"),
    ]
    rows = [_item_row(words, item) for item in ordered[:MAX_ITEMS]]
    more = len(ordered) - MAX_ITEMS
    note = words.counted("items_more", more) if more > 0 else ""
    caption = words.say("items_table")
    if more > 0:
        count = words.numbers.count
        part = words.say("part_of", shown=count(MAX_ITEMS), all=count(len(ordered)))
        caption = f"{caption} ({part})"
    return Table(caption, heads, rows, note)


def profiles_figure(report: LossReport, words: Words) -> Figure | None:
    """Loss by profile on both sides, of all items; two profiles at least."""
    profiles = _profiles(report)[:MAX_BARS]
    if not profiles:
        return None
    rows: list[Bar] = []
    for row in profiles:
        past, new = row.past_gpu_hours_lost_per_30_days or 0.0, row.gpu_hours_lost_per_30_days
        moved = difference(words, new - past)
        rows += [Bar("", 0.0, 0.0, "", "past")] if rows else []
        rows += [
            Bar(_profile_name(words, row), 0.0, past, hours(words, past), "past"),
            Bar("", 0.0, new, f"{hours(words, new)} ({moved.text})", "new"),
        ]
    return Figure(
        "profiles",
        words.say("profiles_chart"),
        words.say("profiles_desc", count=words.numbers.count(len(profiles))),
        [
            Legend("past", f"{words.say('legend_past')} ({past_name(report, words)})"),
            Legend("new", words.say("legend_new")),
        ],
        rows,
        is_paired=True,
    )


def profiles_table(report: LossReport, words: Words) -> Table | None:
    """The same numbers, of all profiles: they add up to the headline."""
    profiles = _profiles(report)
    if not profiles:
        return None
    heads = [
        TableHead(words.say("profile"), "text"),
        TableHead(words.say("past")),
        TableHead(words.say("new")),
        TableHead(words.say("difference")),
    ]
    rows = [
        [
            Cell(_profile_name(words, row), note=on_one_side(words, row)),
            Cell(hours(words, row.past_gpu_hours_lost_per_30_days)),
            Cell(hours(words, row.gpu_hours_lost_per_30_days)),
            difference(
                words, row.gpu_hours_lost_per_30_days - (row.past_gpu_hours_lost_per_30_days or 0.0)
            ),
        ]
        for row in profiles
    ]
    return Table(words.say("profiles_table"), heads, rows)


def _item_row(words: Words, item: ReportItem) -> list[Cell]:
    none = Cell(words.say("none"), mark="quiet")
    name = _name_cell(words, item.name, item.custom_id, item.profile, "")
    numbers = words.numbers
    gpus = none if item.num_gpus is None else Cell(numbers.count(item.num_gpus))
    size = [name, gpus, Cell(numbers.count(item.period_days))]
    if item.gpu_hours_lost is None:
        why = Cell(words.name("missing", item.missing or "not_computed"), mark="worse")
        return [*size, none, why, none, none, none, none]
    error = item.gpu_hours_lost_se
    return [
        *size,
        Cell(percent(words, item.efficiency_fraction)),
        Cell(
            hours(words, item.gpu_hours_lost, error),
            note=f"± {numbers.error(error)}" if error else "",
            mark="strong",
        ),
        _range(words, item),
        difference(words, item.change.difference if item.change else None, _error_30(item)),
        money(words, item.cost_of_loss, item.cost_status.value),
        Cell(words.name("method", item.method)) if item.method else none,
    ]


def _error_30(item: ReportItem) -> float | None:
    """The standard error on 30 days, as the change is."""
    error = item.gpu_hours_lost_se
    return error and error * MONTH_DAYS / item.period_days


def _range(words: Words, item: ReportItem) -> Cell:
    low, high = item.gpu_hours_lost_p10, item.gpu_hours_lost_p90
    if low is None or high is None:
        return Cell(words.say("none"), mark="quiet")
    error = item.gpu_hours_lost_se
    return Cell(f"{hours(words, low, error)} – {hours(words, high, error)}")  # noqa: RUF001 - a range


def _profiles(report: LossReport) -> list[ProfileLoss]:
    """Where there is a baseline and more than one profile; the largest first."""
    return report.profiles if report.baseline and len(report.profiles) > 1 else []


def _profile_name(words: Words, row: ProfileLoss) -> str:
    return row.profile or words.say("without_profile")


def _tone(mover: Mover) -> Tone:
    """Better or worse; that an item has no numbers is neither."""
    if mover.kind in WITHOUT_NUMBERS:
        return "nominal"
    return "loss" if mover.difference_per_30_days > 0 else "gain"


def _unjudged(mover: Mover, cell: Cell) -> Cell:
    """The cell without its colour, where one side has no numbers."""
    is_marked = cell.mark in {"worse", "better"} and mover.kind in WITHOUT_NUMBERS
    return structs.replace(cell, mark="") if is_marked else cell


def _mover_text(words: Words, mover: Mover) -> str:
    share = "" if mover.relative is None else f" ({percent(words, mover.relative, signed=True)})"
    if mover.kind != "changed":
        share = f" ({words.say(f'kind_{mover.kind}')})"
    return words.numbers.signed_hours(mover.difference_per_30_days) + share


def _name_cell(words: Words, name: str, custom_id: str, profile: str | None, kind: str) -> Cell:
    notes = [profile or "", words.say(f"kind_{kind}") if kind not in {"", "changed"} else ""]
    return Cell(label(name, custom_id), note=", ".join(note for note in notes if note))


def _lost_text(words: Words, item: ReportItem) -> str:
    shown = hours(words, item.gpu_hours_lost, item.gpu_hours_lost_se)
    if not item.gpu_hours_available or item.gpu_hours_lost is None:
        return shown
    return f"{shown} ({percent(words, item.gpu_hours_lost / item.gpu_hours_available)})"


def _legend(words: Words, tones: dict[str, str], rows: list[Bar]) -> list[Legend]:
    used = {row.tone for row in rows}
    return [Legend(tone, words.say(f"legend_{key}")) for tone, key in tones.items() if tone in used]


def _no_money(report: LossReport) -> Callable[[Mover], str]:
    """Why the cost of a mover is not known: it does not say it itself."""
    items = {item.custom_id: item for item in report.items}

    def status(mover: Mover) -> str:
        item = items.get(mover.custom_id)
        if is_withheld(report):
            return "withheld"
        if mover.kind == "changed" and item is not None and item.cost_change is not None:
            return str(item.cost_change.status)
        if mover.kind in {"appeared", "returned"} and item is not None:
            return item.cost_status.value
        return "no_rate" if report.batch.currency is None else "not_computed"

    return status
