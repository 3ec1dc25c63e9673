"""A report as those may read it who may not see money."""

import re
from collections.abc import Mapping

from msgspec import structs

from service.reports.cost_changes import withheld_change
from service.reports.loss_report import (
    BudgetOutcome,
    Headline,
    LossReport,
    ReportBatch,
    ReportItem,
    ReportNotice,
)
from service.reports.money import CostStatus

# Notices that tell about rates, as `unpriced_days` of a result does
NOTICES_OF_MONEY = frozenset({"unpriced_days", "currencies_differ", "budget_unknown"})

PRICING_WITHHELD = 0
_NO_PRICE: Mapping[str, None] = {
    "priced_cost_per_30_days": None,
    "items_unpriced": None,
    "unpriced_days": None,
}
_OF_PRICING = re.compile(r" --(baseline-)?pricing \d+", re.ASCII)


def without_costs(report: LossReport) -> LossReport:
    """The same report without an amount, a price, a rate or whether days are priced."""
    return structs.replace(
        report,
        batch=_batch(report.batch),
        baseline=report.baseline and _batch(report.baseline),
        headline=_headline(report.headline),
        waterfall=[structs.replace(step, cost_per_30_days=None) for step in report.waterfall],
        items=[_item(item) for item in report.items],
        movers=[
            structs.replace(mover, cost_difference_per_30_days=None) for mover in report.movers
        ],
        remedies=[
            structs.replace(
                remedy, cost_given_back_per_30_days=None, cost_status=CostStatus.WITHHELD
            )
            for remedy in report.remedies
        ],
        warnings=_warnings(report),
        budget=report.budget and withheld_budget(report.budget),
        reproduce=structs.replace(
            report.reproduce,
            rate_ids=[],
            rates_as_of=None,
            commands=[_OF_PRICING.sub("", command) for command in report.reproduce.commands],
        ),
    )


def withheld_budget(budget: BudgetOutcome) -> BudgetOutcome:
    """The budget without money.

    A status that money had a part in is withheld, unless the GPU-hours alone say `over`.
    """
    if budget.cost_budget_per_30_days is None:
        return structs.replace(budget, cost_of_loss_per_30_days=None, **_NO_PRICE)
    lost, allowed = budget.gpu_hours_lost_per_30_days, budget.gpu_hours_budget_per_30_days
    is_over = lost is not None and allowed is not None and lost > allowed
    return structs.replace(
        budget,
        status="over" if is_over else "withheld",
        gpu_hours_lost_per_30_days=None if allowed is None else lost,
        cost_of_loss_per_30_days=None,
        cost_budget_per_30_days=None,
        reason_unknown=None,
        **_NO_PRICE,
    )


def _warnings(report: LossReport) -> list[ReportNotice]:
    """Not why a budget of money is unknown either: it would say that it is not over."""
    hidden = NOTICES_OF_MONEY
    if report.budget is not None and report.budget.cost_budget_per_30_days is not None:
        hidden |= {"budget_incomplete"}
    return [notice for notice in report.warnings if notice.code not in hidden]


def _batch(batch: ReportBatch) -> ReportBatch:
    """Whether it was priced again tells of money too."""
    return structs.replace(batch, rates_as_of=None, pricing=PRICING_WITHHELD)


def _headline(headline: Headline) -> Headline:
    return structs.replace(
        headline,
        cost_of_loss_per_30_days=None,
        cost_status=CostStatus.WITHHELD,
        cost_of_loss_change=headline.cost_of_loss_change and withheld_change(),
        rates=[],
        **_NO_PRICE,
    )


def _item(item: ReportItem) -> ReportItem:
    return structs.replace(
        item,
        cost_of_loss=None,
        cost_of_loss_per_30_days=None,
        cost_status=CostStatus.WITHHELD,
        unpriced_days=None,
        cost_change=item.cost_change and withheld_change(),
        rates=[],
        price_days=[],
    )
