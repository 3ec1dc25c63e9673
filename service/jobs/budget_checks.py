"""What a budget must be like, of a schedule or of a report by itself."""

from collections.abc import Iterator
from decimal import Decimal

from service.errors import FieldFault
from service.jobs.actors import Actor
from service.jobs.schedule_documents import Budget
from service.reports.money import MoneyError, minor_digits


def budget_faults(actor: Actor, budget: Budget, currency: str | None) -> Iterator[FieldFault]:
    """Every fault, with its place under `/budget`; `currency` is what the batch is priced in."""
    money, place = budget.cost_of_loss_per_30_days, "/budget/cost_of_loss_per_30_days"
    if money is None:
        if budget.gpu_hours_lost_per_30_days is None:
            detail = "a budget names GPU-hours, money, or both"
            yield FieldFault(pointer="/budget", code="empty_budget", detail=detail)
        return
    try:
        minor_digits(money.currency)
    except MoneyError as error:
        yield FieldFault(pointer=f"{place}/currency", code=error.code, detail=str(error))
    else:
        if money.currency != currency:
            shown = "no currency" if currency is None else currency
            named = money.currency if actor.sees_costs else "another currency"
            detail = f"the budget is in {named}, but the batch is priced in {shown}"
            yield FieldFault(pointer=f"{place}/currency", code="other_currency", detail=detail)
    if Decimal(money.amount) <= 0:
        detail = f"{money.amount} is no budget: it must be above 0"
        yield FieldFault(pointer=f"{place}/amount", code="not_positive", detail=detail)
