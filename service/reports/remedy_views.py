"""Remedies of a report: their chart, their table, and a line of plain text for each."""

from service.reports.charts import Bar
from service.reports.language import Words
from service.reports.loss_report import LossReport, ReportRemedy
from service.reports.report_view import (
    Cell,
    Figure,
    Table,
    TableHead,
    hours,
    label,
    money,
    setting_of,
)

MAX_BARS = 12


def remedies_figure(report: LossReport, words: Words) -> Figure | None:
    """What remedies would give back; below 0 where one does not pay."""
    remedies = [r for r in report.remedies if r.gpu_hours_given_back_per_30_days][:MAX_BARS]
    if not remedies:
        return None
    is_of_one = len({remedy.custom_id for remedy in remedies}) == 1
    rows = [
        Bar(
            words.name("remedy", remedy.kind),
            0.0,
            remedy.gpu_hours_given_back_per_30_days,
            _remedy_text(words, remedy, is_of_one=is_of_one),
            "gain" if remedy.gpu_hours_given_back_per_30_days > 0 else "loss",
        )
        for remedy in remedies
    ]
    first = remedies[0]
    return Figure(
        "remedies",
        words.say("remedies_chart"),
        words.say(
            "remedies_desc",
            remedy=rows[0].label,
            name=label(first.name, first.custom_id),
            hours=_given_back(words, first),
        ),
        [],
        rows,
    )


def remedies_table(report: LossReport, words: Words) -> Table | None:
    """The same with the item, the error and the money."""
    if not report.remedies:
        return None
    heads = [
        TableHead(words.say("remedy"), "text"),
        TableHead(words.say("item"), "text"),
        TableHead(words.say("given_back")),
        TableHead(words.say("saved")),
    ]
    rows = [
        [
            Cell(words.name("remedy", remedy.kind), note=_setting(words, remedy)),
            Cell(label(remedy.name, remedy.custom_id)),
            Cell(_given_back(words, remedy), note=_given_back_note(words, remedy)),
            money(words, remedy.cost_given_back_per_30_days, remedy.cost_status.value),
        ]
        for remedy in report.remedies
    ]
    return Table(words.say("remedies_table"), heads, rows, words.say("remedies_note"))


def _remedy_text(words: Words, remedy: ReportRemedy, *, is_of_one: bool) -> str:
    """What it gives back, and of which item or with which setting."""
    detail = _setting(words, remedy) if is_of_one else label(remedy.name, remedy.custom_id)
    return f"{_given_back(words, remedy)} ({detail})" if detail else _given_back(words, remedy)


def _setting(words: Words, remedy: ReportRemedy) -> str:
    return setting_of(words, remedy.setting) if remedy.setting else ""


def _given_back(words: Words, remedy: ReportRemedy) -> str:
    return hours(words, remedy.gpu_hours_given_back_per_30_days, _error(remedy))


def remedy_line(words: Words, remedy: ReportRemedy) -> str:
    """The remedy on a line of plain text, with how more than all can be given back."""
    setting = _setting(words, remedy)
    kind = words.name("remedy", remedy.kind) + (f" ({setting})" if setting else "")
    name = label(remedy.name, remedy.custom_id)
    line = words.say("line_remedy", remedy=kind, name=name, hours=_given_back(words, remedy))
    return f"{line}. {words.say('more_than_lost')}" if remedy.is_more_than_lost else line


def _given_back_note(words: Words, remedy: ReportRemedy) -> str:
    """How uncertain it is, and how more than all can be given back."""
    error = _error(remedy)
    notes = [
        f"± {words.numbers.error(error)}" if error else "",
        words.say("more_than_lost") if remedy.is_more_than_lost else "",
    ]
    return " · ".join(note for note in notes if note)


def _error(remedy: ReportRemedy) -> float | None:
    """On 30 days, as what is given back is."""
    if not remedy.gpu_hours_given_back_se or not remedy.gpu_hours_given_back:
        return None
    scale = remedy.gpu_hours_given_back_per_30_days / remedy.gpu_hours_given_back
    return remedy.gpu_hours_given_back_se * abs(scale)
