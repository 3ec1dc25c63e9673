"""The sections of a report, in their order, and the facts at its end."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TypeVar

from msgspec import Struct

from service.reports import item_views, remedy_views
from service.reports.headline_view import baseline_reason, compared
from service.reports.language import Sentence, Words
from service.reports.loss_report import LossReport, RateChange, VolumeCause
from service.reports.report_table import report_json
from service.reports.report_view import (
    Cell,
    Figure,
    Table,
    TableHead,
    difference,
    is_withheld,
    money,
    moved_input,
    volume_reason,
)
from service.reports.waterfall_view import waterfall_figure, waterfall_table

MAX_ROWS = 12
Thing = TypeVar("Thing")


class Section(Struct, frozen=True):
    """A heading with what stands below it, in this order."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    warnings: Sequence[Sentence] = ()
    commands: Sequence[str] = ()


class Fact(Struct, frozen=True):
    """A line of how to reproduce it."""

    name: str
    value: str


def report_sections(report: LossReport, words: Words) -> list[Section]:
    """All of them, also where there is little to say."""
    return [
        _changed(report, words),
        Section(
            "waterfall",
            words.say("waterfall_section"),
            [words.say("waterfall_note")] if report.waterfall else [words.say("items_none")],
            _there([waterfall_figure(report, words)]),
            _there([waterfall_table(report, words)]),
        ),
        _movers(report, words),
        Section(
            "items",
            words.say("items_section"),
            [],
            _there(
                [item_views.profiles_figure(report, words), item_views.items_figure(report, words)]
            ),
            _there(
                [item_views.profiles_table(report, words), item_views.items_table(report, words)]
            ),
        ),
        Section(
            "remedies",
            words.say("remedies_section"),
            [] if report.remedies else [words.say("remedies_none")],
            _there([remedy_views.remedies_figure(report, words)]),
            _there([remedy_views.remedies_table(report, words)]),
        ),
        _warnings(report, words),
        Section(
            "reproduce",
            words.say("reproduce_section"),
            [words.say("reproduce_text")],
            commands=report.reproduce.commands,
        ),
    ]


def report_facts(report: LossReport, words: Words) -> list[Fact]:
    """Ids, versions and digests: what tells this report from every other."""
    made = report.reproduce
    moment = made.rates_as_of and words.numbers.moment(made.rates_as_of)
    rates = words.say("money_withheld") if is_withheld(report) else ", ".join(made.rate_ids)
    found = [
        ("report_id", str(report.report_id)),
        ("batch_id", str(report.batch.batch_id)),
        ("state", words.name("state", report.batch.state)),
        ("baseline_id", str(report.baseline.batch_id) if report.baseline else ""),
        ("run_id", str(report.run.run_id) if report.run else ""),
        ("model_version", made.model_version),
        ("trainard_version", made.trainard_version),
        ("tzdata_version", report.run.tzdata_version if report.run else ""),
        ("seeds", ", ".join(map(str, made.seeds))),
        ("profiles", ", ".join(made.profiles)),
        ("rate_ids", rates),
        ("rates_as_of", moment or ""),
        ("input_digest", made.input_digest),
        ("sha256", sha256(report_json(report)).hexdigest()),
    ]
    return [Fact(words.say(key), value) for key, value in found if value]


def _changed(report: LossReport, words: Words) -> Section:
    title = words.say("changed_section")
    reason = baseline_reason(report, words)
    if reason:
        return Section("changed", title, [words.say("changed_no_baseline", reason=reason)])
    head = report.headline
    paragraphs = []
    change = head.cost_of_loss_change
    if change and change.difference and change.volume_effect and change.price_effect:
        signed = words.numbers.signed_money
        paragraphs.append(
            words.say(
                "effects",
                difference=signed(change.difference),
                volume=signed(change.volume_effect),
                price=signed(change.price_effect),
            )
        )
    status = change.status if change else "not_computed"
    moved = [rate for rate in head.rates if _has_moved(rate)]
    tables = _there([_volume_table(head.volume, words), _price_table(moved, status, words)])
    if head.is_compared_in_part:
        paragraphs.append(compared(report, words))
    elif not tables:
        # Whether prices are what they were is withheld too.
        key = "changed_none_withheld" if is_withheld(report) else "changed_none"
        paragraphs.append(words.say(key))
    if is_withheld(report):
        paragraphs.append(words.say("price_withheld"))
    return Section("changed", title, paragraphs, tables=tables)


def _volume_table(causes: Sequence[VolumeCause], words: Words) -> Table | None:
    if not causes:
        return None
    heads = [
        TableHead(words.say("reason"), "text"),
        TableHead(words.say("input"), "text"),
        TableHead(words.say("per_30_days")),
    ]
    ordered = sorted(causes, key=lambda cause: -abs(cause.gpu_hours_per_30_days))
    rows = [
        [
            volume_reason(words, cause),
            moved_input(words, cause),
            difference(words, cause.gpu_hours_per_30_days),
        ]
        for cause in ordered[:MAX_ROWS]
    ]
    return Table(words.say("volume_table"), heads, rows, _more(words, len(causes)))


def _has_moved(rate: RateChange) -> bool:
    """Whether it prices other days than before, or has an effect that is shown."""
    return rate.past_days != rate.new_days or bool(rate.effect and float(rate.effect.amount))


def _price_table(rates: Sequence[RateChange], status: str, words: Words) -> Table | None:
    """`status` says why effects are missing."""
    if not rates:
        return None
    heads = [
        TableHead(words.say("rate"), "text"),
        TableHead(words.say("rate_for"), "text"),
        TableHead(words.say("days_before_now")),
        TableHead(words.say("effect")),
    ]
    rows = [
        [
            Cell(f"{words.numbers.money(rate.price_per_gpu_hour)} / GPU-h", note=rate.rate_id),
            Cell(", ".join(text for text in (rate.gpu_type, rate.cost_center) if text) or "GPU"),
            Cell(f"{words.numbers.count(rate.past_days)} → {words.numbers.count(rate.new_days)}"),
            money(words, rate.effect, status, signed=True),
        ]
        for rate in rates[:MAX_ROWS]
    ]
    return Table(words.say("price_table"), heads, rows, _more(words, len(rates)))


def _more(words: Words, number: int) -> str:
    return words.counted("rows_more", number - MAX_ROWS) if number > MAX_ROWS else ""


def _movers(report: LossReport, words: Words) -> Section:
    table = item_views.movers_table(report, words)
    said = []
    if table is None:
        said = [words.say("movers_none" if report.baseline else "movers_no_baseline")]
    return Section(
        "movers",
        words.say("movers_section"),
        said,
        _there([item_views.movers_figure(report, words)]),
        _there([table]),
    )


def _warnings(report: LossReport, words: Words) -> Section:
    said = []
    if not report.warnings:
        said = [words.say("warnings_none_withheld" if is_withheld(report) else "warnings_none")]
    notices = [words.notice(notice) for notice in report.warnings]
    return Section("warnings", words.say("warnings_section"), said, warnings=notices)


def _there(found: Iterable[Thing | None]) -> list[Thing]:
    return [thing for thing in found if thing is not None]
