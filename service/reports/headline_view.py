"""The headline of a report in words: what is lost, what it costs, which way it went, the budget."""

from msgspec import Struct

from service.reports.budget_view import BudgetView, budget_view, clipped
from service.reports.language import Words
from service.reports.loss_report import LossReport
from service.reports.money import Money
from service.reports.report_view import (
    Mark,
    direction,
    is_withheld,
    on_one_side,
    percent,
)


class Move(Struct, frozen=True):
    """A change: its size, its relative size, against what, and whether it is good."""

    text: str
    against: str
    mark: Mark
    meaning: str


class HeadlineView(Struct, frozen=True):
    """Everything of it as text."""

    is_empty: bool
    lost_title: str
    lost: str
    lost_move: Move | None
    uncertain: str
    cost: str
    cost_note: str
    is_cost_known: bool
    cost_move: Move | None
    fraction: str
    fraction_of: str
    fraction_used: float
    not_useful: str
    compared: str
    no_baseline: str
    budget: BudgetView


def headline_view(report: LossReport, words: Words) -> HeadlineView:
    """Of any report: with and without baseline, rate, money and budget."""
    head, numbers = report.headline, words.numbers
    error = head.gpu_hours_lost_se_per_30_days
    lost = head.gpu_hours_lost_per_30_days
    is_empty = head.gpu_hours_available_per_30_days <= 0
    return HeadlineView(
        is_empty=is_empty,
        lost_title=words.say("gained_title" if lost < 0 else "lost_title"),
        lost=numbers.hours(abs(lost), error),
        lost_move=_hours_move(report, words),
        uncertain=words.say("uncertain", hours=numbers.error(error)) if error else "",
        cost=_cost(report, words),
        cost_note=_cost_note(report, words),
        is_cost_known=_known_cost(report) is not None,
        cost_move=_cost_move(report, words),
        fraction=words.say("none") if is_empty else numbers.percent(head.loss_fraction),
        fraction_of=words.say(
            "fraction_of", hours=numbers.hours(head.gpu_hours_available_per_30_days)
        ),
        fraction_used=clipped(head.loss_fraction),
        not_useful=words.say(
            "not_useful", hours=numbers.hours(head.gpu_hours_not_useful_per_30_days)
        ),
        compared=compared(report, words),
        no_baseline=baseline_reason(report, words),
        budget=budget_view(report, words),
    )


def compared(report: LossReport, words: Words) -> str:
    """What the change is of, and what has numbers on one side only: that is in no change."""
    head = report.headline
    if report.baseline is None:
        return ""
    said = words.say("compared", items=words.counted("items", head.items_compared))
    if not head.is_compared_in_part:
        return said
    past = head.past_gpu_hours_lost_per_30_days or 0.0
    shown = words.numbers.hours(past), words.numbers.hours(head.gpu_hours_lost_per_30_days)
    whole = words.say("compared_whole", past=shown[0], new=shown[1])
    return f"{said} {words.say('compared_others', others=on_one_side(words, head))} {whole}"


def about(report: LossReport, words: Words) -> list[str]:
    """Which run it is, which window, and when it was made."""
    numbers, run = words.numbers, report.run
    days = sorted({item.period_days for item in report.items}) or [30]
    shown = words.counted("days", days[0]) if len(days) == 1 else words.say("several_windows")
    starts = {item.start_on for item in report.items} or {report.batch.start_on}
    first_on = numbers.day(min(starts))
    window = "window" if len(starts) == 1 else "windows"
    scheduled = (
        words.say(
            "scheduled",
            schedule=run.schedule,
        )
        if run
        else words.say("by_hand")
    )
    made_at = words.say("made_at", moment=numbers.moment(report.made_at))
    return [scheduled, words.say(window, days=shown, first_on=first_on), made_at]


def baseline_reason(report: LossReport, words: Words) -> str:
    """Why there is nothing to compare with; empty where there is."""
    if report.baseline is not None:
        return ""
    return words.name("baseline_missing", report.baseline_missing or "none_asked")


def past_name(report: LossReport, words: Words) -> str:
    """The baseline as a reader knows it: the local time of its slot, or the moment of its batch."""
    if report.baseline is None:
        return ""
    baseline, run = report.baseline, report.run
    if baseline.local_time is None:
        return words.numbers.moment(baseline.scheduled_for or baseline.created_at)
    local = words.numbers.local(baseline.local_time)
    # In the zone that stands above; another one is said.
    if run is not None and run.zone == baseline.zone:
        return local
    return f"{local} ({baseline.zone})"


def _hours_move(report: LossReport, words: Words) -> Move | None:
    change = report.headline.gpu_hours_lost_change
    if change is None or change.difference is None:
        return None
    past = past_name(report, words)
    if change.difference == 0:
        is_in_part = report.headline.is_compared_in_part
        key = "unchanged_in_part" if is_in_part else "unchanged"
        return Move(words.say(key, past=past), "", "", "")
    error = report.headline.gpu_hours_lost_se_per_30_days
    return _move(
        words,
        "hours",
        words.numbers.signed_hours(change.difference, error),
        change.relative,
        past,
        change.difference,
    )


def _cost_move(report: LossReport, words: Words) -> Move | None:
    change = report.headline.cost_of_loss_change
    if change is None or change.difference is None:
        return None
    past, size = past_name(report, words), float(change.difference.amount)
    if size == 0:
        is_in_part = report.headline.is_compared_in_part
        key = "unchanged_in_part" if is_in_part else "unchanged"
        return Move(words.say(key, past=past), "", "", "")
    shown = words.numbers.signed_money(change.difference)
    return _move(words, "cost", shown, change.relative, past, size)


def _move(
    words: Words, kind: str, shown: str, relative: float | None, past: str, size: float
) -> Move:
    share = "" if relative is None else f" ({percent(words, relative, signed=True)})"
    mark = direction(size)
    return Move(
        f"{shown}{share}", words.say("against", past=past), mark, words.say(f"{kind}_{mark}")
    )


def _known_cost(report: LossReport) -> Money | None:
    """The cost, or what it is at least."""
    head = report.headline
    return head.cost_of_loss_per_30_days or head.priced_cost_per_30_days


def _cost_note(report: LossReport, words: Words) -> str:
    """What has no rate, where not all has one."""
    head = report.headline
    if not head.items_unpriced or head.unpriced_days is None:
        return ""
    return words.say(
        "unpriced",
        items=words.counted("items", head.items_unpriced),
        days=words.counted("days", head.unpriced_days),
    )


def _cost(report: LossReport, words: Words) -> str:
    head = report.headline
    if head.cost_of_loss_per_30_days is not None:
        return words.numbers.money(head.cost_of_loss_per_30_days)
    if head.priced_cost_per_30_days is not None:
        shown = words.numbers.money(head.priced_cost_per_30_days)
        return words.say("at_least", cost=shown)
    if is_withheld(report):
        return words.say("money_withheld")
    # Of nothing there is no cost: that is no rate that is missing.
    return words.name("cost_status", head.cost_status.value if head.items else "not_computed")
