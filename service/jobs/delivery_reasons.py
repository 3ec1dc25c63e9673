"""Why a delivery is sent or is not: the schedule's rule with the numbers, in two languages."""
# ruff: noqa: RUF001 - French has its own apostrophe

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Final

from babel.numbers import format_decimal, format_percent
from msgspec import Struct

from service.jobs.schedule_documents import ChangeThreshold, DeliveryIn, Language
from service.reports.loss_report import BudgetOutcome, LossReport
from service.reports.money import Money, minor_digits

MAX_CAUSE_LENGTH: Final = 600
# Ends of a run that are told, whatever the rule is
FAILURES: Final = ("failed",)
# Tried in this order until a number and what it is held against look different (None: as usual).
_DECIMALS: Final = (None, 2, 4, 6, 9, 12)

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "failed": "The run failed: {cause}",
        "failed_without_cause": "The run failed.",
        "ended": "The run ended without a report ({state}): {cause}",
        "over_hours": "Over budget: {lost} GPU-hours lost in 30 days, budget {budget}.",
        "over_cost": "Over budget: {lost} lost in 30 days, budget {budget}.",
        "over_at_least": "Over budget: at least {lost} lost in 30 days, budget {budget}; not all "
        "days have a rate.",
        "over_by_less": "It is over by less than {least}.",
        "always": "Every run is delivered.",
        "no_result": "Not sent: no scenario has a result.",
        "nothing_lost": "Not sent: nothing is lost.",
        "not_empty": "{lost} GPU-hours are lost in 30 days.",
        "no_baseline": "There is no earlier run to compare with.",
        "not_compared": "No scenario of this run was in the run before.",
        "others": "The scenarios are others: {appeared} appeared, {gone} gone.",
        "one_sided": "Headlines without numbers now or in the run before: {items} ({names}).",
        "moved": "The 30-day loss moved by {difference} GPU-hours{relative}, more than {limit}.",
        "moved_at_all": "The 30-day loss moved by {difference} GPU-hours{relative}.",
        "still": "Not sent: the 30-day loss moved by {difference} GPU-hours{relative}, "
        "not more than {limit}.",
        "still_at_all": "Not sent: the 30-day loss did not move.",
        "hours": "{hours} GPU-hours",
        "or": " or ",
    },
    "fr": {
        "failed": "L’exécution a échoué. Détail (en anglais) : {cause}",
        "failed_without_cause": "L’exécution a échoué.",
        "ended": "L’exécution s’est terminée sans rapport ({state}). Détail (en anglais) : {cause}",
        "over_hours": "Budget dépassé : {lost} heures GPU perdues en 30 jours, budget {budget}.",
        "over_cost": "Budget dépassé : {lost} perdus en 30 jours, budget {budget}.",
        "over_at_least": "Budget dépassé : au moins {lost} perdus en 30 jours, budget {budget} ; "
        "tous les jours n’ont pas de tarif.",
        "over_by_less": "Le dépassement est de moins de {least}.",
        "always": "Chaque exécution est envoyée.",
        "no_result": "Non envoyé : aucun scénario n’a de résultat.",
        "nothing_lost": "Non envoyé : rien n’est perdu.",
        "not_empty": "{lost} heures GPU sont perdues en 30 jours.",
        "no_baseline": "Il n’y a pas d’exécution antérieure à comparer.",
        "not_compared": "Aucun scénario de cette exécution n’était dans la précédente.",
        "others": "Les scénarios ont changé : {appeared} apparus, {gone} disparus.",
        "one_sided": "Résultats principaux absents maintenant ou dans l’exécution précédente : "
        "{items} ({names}).",
        "moved": "La perte sur 30 jours a varié de {difference} heures GPU{relative}, "
        "plus que {limit}.",
        "moved_at_all": "La perte sur 30 jours a varié de {difference} heures GPU{relative}.",
        "still": "Non envoyé : la perte sur 30 jours a varié de {difference} heures GPU{relative}, "
        "pas plus que {limit}.",
        "still_at_all": "Non envoyé : la perte sur 30 jours n’a pas varié.",
        "hours": "{hours} heures GPU",
        "or": " ou ",
    },
}


class Decision(Struct, frozen=True, kw_only=True):
    """Whether it is sent, and the sentence that says why."""

    send: bool
    reason: str


def decide(
    delivery: DeliveryIn,
    language: Language,
    *,
    state: str,
    cause: str | None,
    report: LossReport | None,
) -> Decision:
    """Apply the delivery's rule to an ended run.

    A run that has failed, and one over its budget, is always told. The report is as its readers
    may see it: whether a budget of money is passed is told only where money may be shown.
    """
    if report is None or state in FAILURES:
        return _without_numbers(language, state, cause)
    over = _over(report.budget, language)
    if over is not None:
        return Decision(send=True, reason=over)
    if delivery.when == "always":
        return Decision(send=True, reason=_say(language, "always"))
    if delivery.when == "not_empty":
        return _unless_empty(language, report)
    return _on_change(language, report, delivery.threshold or ChangeThreshold())


def hours_text(
    hours: float, language: Language, decimals: int | None = None, *, signed: bool = False
) -> str:
    """GPU-hours as people of the language write them, with at most so many decimals."""
    if decimals is None:
        decimals = 0 if abs(hours) >= 100 else 2
    digits = "#,##0" + ("." + "#" * decimals if decimals else "")
    pattern = f"+{digits};-{digits}" if signed and hours else digits
    return format_decimal(hours, format=pattern, locale=language)


def _without_numbers(language: Language, state: str, cause: str | None) -> Decision:
    shown = (cause or "").strip()[:MAX_CAUSE_LENGTH]
    if state in FAILURES:
        code = "failed" if shown else "failed_without_cause"
        return Decision(send=True, reason=_say(language, code, cause=shown))
    return Decision(send=False, reason=_say(language, "ended", state=state, cause=shown or state))


def _over(outcome: BudgetOutcome | None, language: Language) -> str | None:
    if outcome is None or outcome.status != "over":
        return None
    lost, budget = outcome.gpu_hours_lost_per_30_days, outcome.gpu_hours_budget_per_30_days
    if lost is not None and budget is not None and lost > budget:
        text = partial(hours_text, language=language)
        decimals = _decimals_apart(text, lost, budget)
        hours = {"lost": text(lost, decimals=decimals), "budget": text(budget, decimals=decimals)}
        return _say(language, "over_hours", **hours)
    cost, cost_budget = outcome.cost_of_loss_per_30_days, outcome.cost_budget_per_30_days
    # Where not all days have a rate, those that have one may be enough.
    known, code = (
        (cost, "over_cost") if cost else (outcome.priced_cost_per_30_days, "over_at_least")
    )
    if known is None or cost_budget is None:
        return None
    amounts = {"lost": _money_text(known, language), "budget": _money_text(cost_budget, language)}
    said = _say(language, code, **amounts)
    if Decimal(known.amount) > Decimal(cost_budget.amount):
        return said
    # It is more than the budget only before it is rounded to what can be paid.
    least = f"{Decimal(1).scaleb(-minor_digits(known.currency)):f}"
    shown = _money_text(Money(amount=least, currency=known.currency), language)
    return f"{said} {_say(language, 'over_by_less', least=shown)}"


def _unless_empty(language: Language, report: LossReport) -> Decision:
    if all(item.missing is not None for item in report.items):
        return Decision(send=False, reason=_say(language, "no_result"))
    lost = report.headline.gpu_hours_lost_per_30_days
    if lost == 0:
        return Decision(send=False, reason=_say(language, "nothing_lost"))
    return Decision(send=True, reason=_say(language, "not_empty", lost=hours_text(lost, language)))


def _on_change(language: Language, report: LossReport, threshold: ChangeThreshold) -> Decision:
    if report.baseline is None:
        return Decision(send=True, reason=_say(language, "no_baseline"))
    headline = report.headline
    change = headline.gpu_hours_lost_change
    for notice in report.warnings:
        if notice.code == "unmatched_items":
            others = {name: str(notice.params[name]) for name in ("appeared", "gone")}
            return Decision(send=True, reason=_say(language, "others", **others))
        if notice.code == "counterpart_missing":
            sides = {name: str(notice.params[name]) for name in ("items", "names")}
            return Decision(send=True, reason=_say(language, "one_sided", **sides))
    if change is None or change.difference is None or headline.items_compared == 0:
        return Decision(send=True, reason=_say(language, "not_compared"))
    difference, relative = change.difference, change.relative
    decimals = _limit_decimals(difference, relative, threshold, language)
    shown = {"difference": hours_text(difference, language, decimals[0], signed=True)}
    percent = "" if relative is None else _percent(relative, language, decimals[1], signed=True)
    shown["relative"] = f" ({percent})" if percent else ""
    limits = _limits(threshold, language, decimals)
    if not limits:
        code = "moved_at_all" if difference else "still_at_all"
        return Decision(send=bool(difference), reason=_say(language, code, **shown))
    is_moved = _passes(difference, relative, threshold)
    limit = SENTENCES[language]["or"].join(limits)
    return Decision(
        send=is_moved, reason=_say(language, "moved" if is_moved else "still", limit=limit, **shown)
    )


def _passes(difference: float, relative: float | None, threshold: ChangeThreshold) -> bool:
    hours, fraction = threshold.gpu_hours_lost_per_30_days, threshold.relative
    if hours is not None and abs(difference) > hours:
        return True
    if fraction is None or not difference:
        return False
    # From nothing to something is beyond any fraction.
    return relative is None or abs(relative) > fraction


def _decimals_apart(text: Callable[..., str], one: float | None, other: float | None) -> int | None:
    """How many decimals tell the two numbers apart, where they are not the same."""
    if one is None or other is None or one == other:
        return None
    return next(
        (
            decimals
            for decimals in _DECIMALS
            if text(one, decimals=decimals) != text(other, decimals=decimals)
        ),
        _DECIMALS[-1],
    )


def _limit_decimals(
    difference: float, relative: float | None, threshold: ChangeThreshold, language: Language
) -> tuple[int | None, int | None]:
    """Decimals of GPU-hours and of percentages: a change never looks like its limit but is it."""
    moved = None if relative is None else abs(relative)
    hours = partial(hours_text, language=language)
    percent = partial(_percent, language=language)
    return (
        _decimals_apart(hours, abs(difference), threshold.gpu_hours_lost_per_30_days),
        _decimals_apart(percent, moved, threshold.relative),
    )


def _limits(
    threshold: ChangeThreshold, language: Language, decimals: tuple[int | None, int | None]
) -> list[str]:
    found = []
    if threshold.gpu_hours_lost_per_30_days is not None:
        hours = hours_text(threshold.gpu_hours_lost_per_30_days, language, decimals[0])
        found.append(_say(language, "hours", hours=hours))
    if threshold.relative is not None:
        found.append(_percent(threshold.relative, language, decimals[1]))
    return found


def _percent(
    fraction: float, language: Language, decimals: int | None = None, *, signed: bool = False
) -> str:
    # The pattern of the language has its own space before the sign.
    text = format_percent(abs(fraction), locale=language, decimal_quantization=False)
    if abs(fraction) >= 0.001:
        shown = round(abs(fraction), 2 + (2 if decimals is None else decimals))
        text = format_percent(shown, locale=language, decimal_quantization=False)
    if not signed or not fraction:
        return text
    return ("+" if fraction > 0 else "-") + text


def _money_text(money: Money, language: Language) -> str:
    _, _, decimals = money.amount.partition(".")
    pattern = "#,##0" + ("." + "0" * len(decimals) if decimals else "")
    amount = format_decimal(Decimal(money.amount), format=pattern, locale=language)
    return f"{amount}\N{NO-BREAK SPACE}{money.currency}"


def _say(language: Language, code: str, **params: str) -> str:
    return sentence_of(language, code).format(**params)


def sentence_of(language: Language, code: str) -> str:
    """The sentence, with places for its numbers."""
    # French sets its colon off, and never at the beginning of a line.
    return SENTENCES[language][code].replace(" :", "\N{NO-BREAK SPACE}:")
