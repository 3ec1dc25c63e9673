"""The headline of a report as plain text, for mail and terminal."""

from collections.abc import Iterator, Mapping

from service.reports.headline_view import HeadlineView, baseline_reason, headline_view, past_name
from service.reports.language import Language, Words, words
from service.reports.loss_report import LossReport
from service.reports.remedy_views import remedy_line
from service.reports.report_view import label, title_of, volume_reason

MAX_MOVERS = 5
MAX_REMEDIES = 3
NO_LINKS: Mapping[str, str] = {}


def report_text(report: LossReport, language: Language, links: Mapping[str, str] = NO_LINKS) -> str:
    """Headline, change, budget, movers, remedies and warnings; then the links by their names."""
    spoken = words(language)
    blocks = [
        _headline(report, spoken),
        _movers(report, spoken),
        _remedies(report, spoken),
        _warnings(report, spoken),
        [f"{name}: {address}" for name, address in links.items()],
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines) + "\n"


def _headline(report: LossReport, spoken: Words) -> Iterator[str]:
    head, view = report.headline, headline_view(report, spoken)
    made = spoken.numbers.moment(report.made_at)
    yield spoken.say("line_made", name=title_of(report, spoken), moment=made)
    yield ""
    if view.is_empty:
        yield spoken.say("items_none")
    else:
        lost = spoken.numbers.hours(
            head.gpu_hours_lost_per_30_days, head.gpu_hours_lost_se_per_30_days
        )
        held = spoken.numbers.hours(head.gpu_hours_available_per_30_days)
        yield spoken.say("line_lost", hours=lost, share=view.fraction, held=held)
    yield from _change(report, spoken, view)
    note = f" ({view.cost_note})" if view.cost_note else ""
    yield spoken.say("line_cost", cost=view.cost) + note
    if view.cost_move:
        yield spoken.say("line_cost_change", difference=view.cost_move.text)
    if report.budget is not None:
        detail = ", ".join(view.budget.lines)
        key = "line_budget" if detail else "line_budget_short"
        yield spoken.say(key, status=view.budget.title, detail=detail)


def _change(report: LossReport, spoken: Words, view: HeadlineView) -> Iterator[str]:
    reason = baseline_reason(report, spoken)
    if reason:
        yield spoken.say("line_baseline", reason=reason)
    elif view.lost_move and view.lost_move.against:
        past = past_name(report, spoken)
        yield spoken.say("line_change", difference=view.lost_move.text, past=past)
    elif view.lost_move:
        yield spoken.say("line_unchanged", text=view.lost_move.text)
    if report.headline.is_compared_in_part:
        yield view.compared


def _movers(report: LossReport, spoken: Words) -> Iterator[str]:
    movers = report.movers[:MAX_MOVERS]
    if movers:
        yield spoken.say("line_movers")
    for mover in movers:
        shown = spoken.numbers.signed_hours(mover.difference_per_30_days)
        cause = volume_reason(spoken, mover.main_cause).text if mover.main_cause else ""
        said = cause if mover.kind == "changed" else spoken.say(f"kind_{mover.kind}")
        name = label(mover.name, mover.custom_id)
        yield spoken.say("line_mover", name=name, hours=shown) + (f" ({said})" if said else "")


def _remedies(report: LossReport, spoken: Words) -> Iterator[str]:
    if report.remedies:
        yield spoken.say("line_remedies")
    for remedy in report.remedies[:MAX_REMEDIES]:
        yield remedy_line(spoken, remedy)


def _warnings(report: LossReport, spoken: Words) -> Iterator[str]:
    if report.warnings:
        yield spoken.say("line_warnings")
    for notice in report.warnings:
        yield f"- {spoken.notice(notice).text}"
