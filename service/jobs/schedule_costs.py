"""Money in schedules: whoever may not see it can neither set it, lose it, nor have it sent.

A planner without costs:read may work on a schedule that somebody else has given a budget of money
or deliveries with money in them. What they do not see stays as it is; and they cannot choose what
is computed, or to whom it goes, where the answer would hold money.
"""

from typing import Any

import msgspec

from service.jobs.actors import Actor
from service.jobs.cost_access import require_costs
from service.jobs.schedule_documents import ScheduleIn
from service.jobs.schedule_views import holds_money

__all__ = [
    "holds_money",
    "require_costs_of_change",
    "require_costs_of_new",
    "require_costs_of_sent",
    "sends_money",
    "with_withheld_budget",
]

MONEY = "cost_of_loss_per_30_days"


def sends_money(body: ScheduleIn) -> bool:
    """Whether money is in what is delivered."""
    return any(delivery.include_costs for delivery in body.deliveries)


def require_costs_of_new(actor: Actor, body: ScheduleIn) -> None:
    """Raise `ForbiddenError` for a new schedule with money by somebody who may not see any."""
    if holds_money(body.budget):
        require_costs(actor, "a budget of money")
    if sends_money(body):
        require_costs(actor, "a delivery with include_costs")


def require_costs_of_sent(actor: Actor, sent: Any) -> None:
    """Raise `ForbiddenError` when a change names a budget of money, whatever it is.

    Before it is compared with what there is: the answer would tell whether it was guessed.
    """
    budget = sent.get("budget") if isinstance(sent, dict) else None
    if isinstance(budget, dict) and budget.get(MONEY) is not None:
        require_costs(actor, "to name a budget of money")


def require_costs_of_change(actor: Actor, former: ScheduleIn, body: ScheduleIn) -> None:
    """Raise `ForbiddenError` for a change of what has to do with money."""
    if former.budget != body.budget and _money(former) != _money(body):
        require_costs(actor, "to change a budget of money")
    if holds_money(former.budget) and former.batch.currency != body.batch.currency:
        # Else trying them would find the currency of the budget.
        require_costs(actor, "to change the currency of a schedule with a budget of money")
    if former.deliveries != body.deliveries and sends_money(body):
        require_costs(actor, "to change the deliveries of a schedule that sends money")
    if sends_money(former) and (former.deliveries, former.batch) != (body.deliveries, body.batch):
        require_costs(actor, "to change the batch or the deliveries of a schedule that sends money")


def with_withheld_budget(actor: Actor, former: ScheduleIn, sent: Any) -> Any:
    """The `budget` that was sent, with the money that its sender cannot see and has not named."""
    money = _money(former)
    if actor.sees_costs or money is None or not (sent is None or isinstance(sent, dict)):
        return sent
    named = {} if sent is None else sent
    if named.get(MONEY) is not None:
        return sent
    return {**named, MONEY: money}


def _money(body: ScheduleIn) -> Any:
    return None if body.budget is None else msgspec.to_builtins(body.budget)[MONEY]
