"""A budget of the loss of 30 days, held against what is lost."""

from decimal import Decimal

from service.reports.loss_report import BudgetOutcome, BudgetStatus, Headline
from service.reports.money import Money


def outcome_of(
    headline: Headline,
    *,
    gpu_hours: float | None,
    cost: Money | None,
    is_complete: bool,
) -> BudgetOutcome | None:
    """The outcome of a budget of GPU-hours, of money, or of both; None where there is none.

    `over` where what is known is over either. Else `unknown` where money is not known (or in
    another currency), or items have no numbers (not `is_complete`): they would only lose more.
    The amounts that are compared are those that are shown.
    """
    if gpu_hours is None and cost is None:
        return None
    lost, paid = headline.gpu_hours_lost_per_30_days, headline.cost_of_loss_per_30_days
    is_over, is_known = gpu_hours is not None and lost > gpu_hours, is_complete
    if cost is not None:
        if paid is not None and paid.currency == cost.currency:
            is_over = is_over or Decimal(paid.amount) > Decimal(cost.amount)
        else:
            paid, is_known = None, False
    status: BudgetStatus = "over" if is_over else "within" if is_known else "unknown"
    return BudgetOutcome(
        status=status,
        gpu_hours_lost_per_30_days=lost,
        gpu_hours_budget_per_30_days=gpu_hours,
        cost_of_loss_per_30_days=None if cost is None else paid,
        cost_budget_per_30_days=cost,
    )
