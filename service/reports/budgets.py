"""A budget of the loss of 30 days, held against what is lost."""

from fractions import Fraction

from service.reports.loss_report import BudgetOutcome, BudgetStatus, Headline, ReasonUnknown
from service.reports.money import Money


def outcome_of(
    headline: Headline,
    *,
    gpu_hours: float | None,
    cost: Money | None,
    is_complete: bool,
    exact: Fraction | None = None,
) -> BudgetOutcome | None:
    """The outcome of a budget of GPU-hours, of money, or of both; None where there is none.

    `over` where what is known is over either: days without a rate would only cost more. Else
    `unknown` where money is not known (or in another currency), or items have no numbers (not
    `is_complete`): they would only lose more. Where no item has any, nothing was measured, and
    nothing is within a budget. `exact` is the cost before it was rounded to be shown (None: it
    was not rounded): a budget may be of parts of a cent.
    """
    if gpu_hours is None and cost is None:
        return None
    lost = headline.gpu_hours_lost_per_30_days
    paid, at_least = _in_currency_of(headline, cost)
    is_over = gpu_hours is not None and lost > gpu_hours
    known = at_least if paid is None else paid
    if cost is not None and known is not None:
        paid_exactly = Fraction(known.amount) if exact is None else exact
        is_over = is_over or paid_exactly > Fraction(cost.amount)
    reason: ReasonUnknown | None = None
    if not headline.items:
        reason = "items_without_numbers"
    elif cost is not None and paid is None:
        reason = "other_currency" if _differs(headline, cost) else "no_rate"
    elif not is_complete:
        reason = "items_without_numbers"
    status: BudgetStatus = "over" if is_over else "unknown" if reason else "within"
    return BudgetOutcome(
        status=status,
        gpu_hours_lost_per_30_days=lost,
        gpu_hours_budget_per_30_days=gpu_hours,
        cost_of_loss_per_30_days=paid,
        cost_budget_per_30_days=cost,
        priced_cost_per_30_days=at_least,
        items_unpriced=None if cost is None else headline.items_unpriced,
        unpriced_days=None if cost is None else headline.unpriced_days,
        reason_unknown=reason if status == "unknown" else None,
    )


def _in_currency_of(headline: Headline, cost: Money | None) -> tuple[Money | None, Money | None]:
    """The cost, and what it is at least: nothing is converted."""
    if cost is None or _differs(headline, cost):
        return None, None
    return headline.cost_of_loss_per_30_days, headline.priced_cost_per_30_days


def _differs(headline: Headline, cost: Money) -> bool:
    amounts = headline.cost_of_loss_per_30_days, headline.priced_cost_per_30_days
    return any(found is not None and found.currency != cost.currency for found in amounts)
