"""The budget of a report in words: its status, what is used of it, and why nobody can say."""

from collections.abc import Iterator
from decimal import Decimal

from msgspec import Struct

from service.reports.language import Words
from service.reports.loss_report import BudgetOutcome, LossReport
from service.reports.money import Money, minor_digits
from service.reports.report_view import MANY_TIMES, percent

# Shares are shown without decimals: what is over by less looks as if it were not.
_LOOKS_OVER = 1.005


class BudgetView(Struct, frozen=True):
    """The budget: its status, and a line for each budget with the share that is used."""

    status: str
    title: str
    lines: list[str]
    used: float | None


class _Used(Struct, frozen=True):
    share: float
    line: str


def budget_view(report: LossReport, words: Words) -> BudgetView:
    """The badge and what it is about."""
    budget = report.budget
    if budget is None:
        return BudgetView("none", words.say("no_budget"), [], None)
    error = report.headline.gpu_hours_lost_se_per_30_days
    measured = report.headline.items
    # Nothing that was measured is no loss of 0.
    found = [*_hours(budget, words, error), *_money(budget, words)] if measured else []
    lines = [used.line for used in found]
    if budget.reason_unknown is not None:
        lines.append(words.name("reason_unknown", budget.reason_unknown))
    shares = [used.share for used in found]
    return BudgetView(
        budget.status,
        words.say(f"budget_{budget.status}"),
        lines,
        clipped(max(shares)) if shares else None,
    )


def clipped(fraction: float) -> float:
    """Of a bar: between nothing and all."""
    return min(max(fraction, 0.0), 1.0)


def _hours(budget: BudgetOutcome, words: Words, error: float | None) -> Iterator[_Used]:
    lost, allowed = budget.gpu_hours_lost_per_30_days, budget.gpu_hours_budget_per_30_days
    if lost is None or allowed is None:
        return
    numbers, unit = words.numbers, words.say("unit")
    shown = numbers.hours(lost, error) if abs(lost) >= 1 else numbers.limit_hours(lost)
    over = f"{numbers.limit_hours(lost - allowed)} {unit}" if lost > allowed else ""
    limit = f"{numbers.limit_hours(allowed)} {unit}"
    yield _used(words, lost / allowed, (shown, limit), over)


def _money(budget: BudgetOutcome, words: Words) -> Iterator[_Used]:
    most, cost = budget.cost_budget_per_30_days, budget.cost_of_loss_per_30_days
    known = cost or budget.priced_cost_per_30_days
    if most is None or known is None or float(most.amount) <= 0:
        return
    numbers = words.numbers
    text = numbers.money(known)
    shown = text if cost else words.say("at_least", cost=text)
    left = Decimal(known.amount) - Decimal(most.amount)
    over = ""
    # What is shown may be above a budget of parts of a cent that is kept.
    if left > 0 and budget.status == "over":
        over = numbers.money(Money(amount=f"{left:f}", currency=most.currency))
    elif budget.status == "over" and not _is_over_hours(budget):
        # It is more than the budget only before it is rounded.
        least = Decimal(1).scaleb(-minor_digits(most.currency))
        amount = numbers.money(Money(amount=f"{least:f}", currency=most.currency))
        over = words.say("less_than", amount=amount)
    yield _used(words, float(known.amount) / float(most.amount), (shown, numbers.money(most)), over)


def _is_over_hours(budget: BudgetOutcome) -> bool:
    lost, allowed = budget.gpu_hours_lost_per_30_days, budget.gpu_hours_budget_per_30_days
    return lost is not None and allowed is not None and lost > allowed


def _used(words: Words, share: float, shown: tuple[str, str], over: str) -> _Used:
    """`shown`: what is used, and of how much; `over`: by how much it is more."""
    used, limit = shown
    said = percent(words, share) if abs(share) > MANY_TIMES else words.numbers.percent(share, 0)
    line = words.say("budget_of", used=used, budget=limit, share=said)
    if over and share < _LOOKS_OVER:
        line = f"{line}, {words.say('over_by', amount=over)}"
    return _Used(share, line)
