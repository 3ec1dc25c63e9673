"""Where the GPU-hours go, from held to useful: chart and table of the causes."""

import math
from collections.abc import Sequence

from service.reports.charts import Bar, Tone
from service.reports.language import Words
from service.reports.loss_report import LossReport, WaterfallStep
from service.reports.report_view import (
    Cell,
    Figure,
    Legend,
    Table,
    TableHead,
    hours,
    is_withheld,
    money,
    percent,
)

USEFUL = "gpu_hours_useful"
NOMINAL = ("gpu_hours_communication", "gpu_hours_load")
# A bar of less can hardly be seen.
_LEAST_SHARE = 0.005
_MOST_CAUSES = 12


def waterfall_figure(report: LossReport, words: Words) -> Figure | None:
    """Held, each cause, useful; small causes as one bar. Nothing where no GPU is held."""
    held = report.headline.gpu_hours_available_per_30_days
    causes, useful = _causes(report)
    if held <= 0 or not causes:
        return None
    large, small = _large_and_small(causes, held)
    drawn = [
        (words.name("column", step.column), step.gpu_hours_per_30_days, _tone(step))
        for step in large
    ]
    if small:
        amount = math.fsum(step.gpu_hours_per_30_days for step in small)
        drawn.append((words.counted("other_causes", len(small)), amount, _loss_or_gain(amount)))
    numbers = words.numbers
    rows = [Bar(words.say("available"), 0.0, held, numbers.hours(held), "held")]
    left = held
    for label, amount, tone in drawn:
        text = f"{numbers.hours(amount)} ({percent(words, amount / held)})"
        rows.append(Bar(label, left, left - amount, text, tone))
        left -= amount
    share = percent(words, useful / held)
    rows.append(
        Bar(words.name("column", USEFUL), 0.0, useful, f"{numbers.hours(useful)} ({share})", "held")
    )
    largest = max(causes, key=lambda step: step.gpu_hours_per_30_days)
    tones = {bar.tone for bar in rows}
    legend = [
        Legend(tone, words.say(f"legend_{name}"))
        for tone, name in (
            ("held", "useful"),
            ("nominal", "nominal"),
            ("loss", "loss"),
            ("gain", "gain"),
        )
        if tone in tones
    ]
    return Figure(
        "waterfall",
        words.say("waterfall_chart"),
        words.say(
            "waterfall_desc",
            available=numbers.hours(held),
            useful=numbers.hours(useful),
            cause=words.name("column", largest.column),
            hours=numbers.hours(largest.gpu_hours_per_30_days),
        ),
        legend,
        rows,
        is_connected=True,
    )


def waterfall_table(report: LossReport, words: Words) -> Table | None:
    """Every cause, with what it was before and what it costs."""
    held = report.headline.gpu_hours_available_per_30_days
    causes, _ = _causes(report)
    useful = [step for step in report.waterfall if step.column == USEFUL]
    if not causes:
        return None
    has_past = any(step.past_gpu_hours_per_30_days is not None for step in report.waterfall)
    has_cost = any(step.cost_per_30_days is not None for step in report.waterfall)
    heads = [TableHead(words.say("cause"), "text"), TableHead(words.say("unit"))]
    heads.append(TableHead(words.say("share")))
    heads += [TableHead(words.say("past"))] if has_past else []
    heads += [TableHead(words.say("cost"))] if has_cost else []
    rows = []
    for step in [*causes, *useful]:
        amount = step.gpu_hours_per_30_days
        row = [
            Cell(words.name("column", step.column), mark="strong" if step in useful else ""),
            Cell(hours(words, amount)),
            Cell(percent(words, amount / held if held else None)),
        ]
        row += [Cell(hours(words, step.past_gpu_hours_per_30_days))] if has_past else []
        if has_cost:
            none = Cell(words.say("none"), mark="quiet")
            known = step.cost_per_30_days is not None
            row.append(money(words, step.cost_per_30_days, "") if known else none)
        rows.append(row)
    note = words.say("money_withheld") if is_withheld(report) else ""
    return Table(words.say("waterfall_table"), heads, rows, _sentence(note))


def _causes(report: LossReport) -> tuple[list[WaterfallStep], float]:
    """All but useful, the largest first; and what is useful."""
    causes = [
        step for step in report.waterfall if step.column != USEFUL and step.gpu_hours_per_30_days
    ]
    useful = [step.gpu_hours_per_30_days for step in report.waterfall if step.column == USEFUL]
    return sorted(causes, key=lambda step: -step.gpu_hours_per_30_days), math.fsum(useful)


def _large_and_small(
    causes: Sequence[WaterfallStep], held: float
) -> tuple[list[WaterfallStep], list[WaterfallStep]]:
    """One small cause alone keeps its name."""
    by_size = sorted(causes, key=lambda step: -abs(step.gpu_hours_per_30_days))
    chosen = [
        step.column
        for step in by_size[:_MOST_CAUSES]
        if abs(step.gpu_hours_per_30_days) >= _LEAST_SHARE * held
    ]
    small = [step for step in causes if step.column not in chosen]
    if len(small) == 1:
        return list(causes), []
    return [step for step in causes if step.column in chosen], small


def _tone(step: WaterfallStep) -> Tone:
    return "nominal" if step.column in NOMINAL else _loss_or_gain(step.gpu_hours_per_30_days)


def _loss_or_gain(amount: float) -> Tone:
    return "gain" if amount < 0 else "loss"


def _sentence(text: str) -> str:
    """A state as a note below a table."""
    return text[:1].upper() + text[1:]
