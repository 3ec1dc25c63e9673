"""Money of what is computed at once: the fields that ask for it, and the rates that price it.

Without any of the fields nothing is read from the database and no money is answered.
"""

import math
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs.actors import Actor
from service.jobs.batch_documents import Currency, Pricing
from service.jobs.profiles import ResolvedProfile
from service.jobs.rates import rates_for
from service.reports.money import CostStatus, MoneyError, minor_digits, money
from service.reports.pricing import (
    Cost,
    PricedWindow,
    Rate,
    cost_status,
    exact_hours,
    price_days,
    priced,
)

TYPED: Final = "typed"
"""The id of a rate that is not stored: it was typed with the question."""


class PricedIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a request that ask for money; a request struct inherits them."""

    pricing: (
        Annotated[Pricing, Meta(description="Which rates price it; default: those of the profile.")]
        | None
    ) = None
    currency: (
        Annotated[Currency, Meta(description="Money is given in it where dated rates exist.")]
        | None
    ) = None
    start_on: (
        Annotated[date, Meta(description="First day that is priced; default: today (UTC).")] | None
    ) = None

    @property
    def asks_for_money(self) -> bool:
        """Whether the database is needed for rates."""
        return self.currency is not None or self.pricing is not None


class EvaluationRateDays(Struct, frozen=True, kw_only=True):
    """A rate and how many days of the window it prices."""

    id: Annotated[UUID | None, Meta(description="Null: the price was typed with the request.")]
    days: int
    is_typed: bool


class EvaluationRates(Struct, frozen=True, kw_only=True):
    """The rates that price an answer.

    currency     None: none was asked for, so that nothing has a price
    rates        of one GPU type; empty where there are none or money is withheld
    is_withheld  whether the caller may not see money
    """

    currency: str | None
    start_on: date
    rates: tuple[Rate, ...] = ()
    is_withheld: bool = False

    def window(self, period_days: int) -> PricedWindow:
        """The days from `start_on` on by rate; days after the last date have none."""
        within = min(period_days, (date.max - self.start_on).days)
        found = price_days(self.rates, self.start_on, within) if within else PricedWindow(lines=())
        beyond = found.unpriced_days + period_days - within
        return PricedWindow(lines=found.lines, unpriced_days=beyond)

    def cost(self, gpu_hours: float, period_days: int) -> Cost:
        """What GPU-hours cost that fall evenly on whole days, rounded, or why there is no cost."""
        if self.is_withheld:
            return Cost(cost=None, cost_status=CostStatus.WITHHELD)
        return priced(gpu_hours, self.window(period_days), self.currency)

    def cost_over(self, gpu_hours: float, days: float) -> Cost:
        """The same for hours that fall evenly on `days` > 0, the last of them a part of a day."""
        whole = math.ceil(days)
        if self.is_withheld or self.currency is None or whole == days:
            return self.cost(gpu_hours, whole)
        window = self.window(whole)
        status = cost_status(window)
        if status is not CostStatus.PRICED:
            return Cost(cost=None, cost_status=status)
        paid = sum((Fraction(line.price) * line.days for line in window.lines), Fraction(0))
        (last,) = price_days(self.rates, self.start_on + timedelta(days=whole - 1), 1).lines
        paid -= Fraction(last.price) * (whole - Fraction(days))
        amount = exact_hours(gpu_hours) * paid / Fraction(days)
        return Cost(cost=money(amount, self.currency), cost_status=status)

    def rate_days(self, period_days: int) -> list[EvaluationRateDays]:
        """Which rate, or the typed price, prices how many of the days."""
        return [
            EvaluationRateDays(
                id=None if line.rate_id == TYPED else UUID(line.rate_id),
                days=line.days,
                is_typed=line.rate_id == TYPED,
            )
            for line in self.window(period_days).lines
        ]

    def unpriced_days(self, period_days: int) -> int | None:
        """Days without a rate; None where money is withheld."""
        return None if self.is_withheld else self.window(period_days).unpriced_days


def read_rates(
    connection: Connection,
    actor: Actor,
    document: PricedIn,
    profile: ResolvedProfile | None,
    *,
    period_days: int,
) -> EvaluationRates | None:
    """The rates that price the answer; None where no money is asked for.

    Raises `InvalidError` for a currency that is none and for a window that ends after the last
    date. Who may not see money gets no rates.
    """
    start_on = first_day(document, period_days)
    if not document.asks_for_money:
        return None
    currency = document.currency
    if currency is not None:
        _refuse_unknown(currency)
    if not actor.sees_costs:
        return EvaluationRates(currency=currency, start_on=start_on, is_withheld=True)
    key = document.pricing or profile
    found: tuple[Rate, ...] = ()
    if currency is not None and key is not None:
        found = tuple(rates_for(connection, actor.team_id, key.gpu_type, currency, key.cost_center))
    return EvaluationRates(currency=currency, start_on=start_on, rates=found)


def first_day(document: PricedIn, period_days: int) -> date:
    """Of the window that is priced; raises `InvalidError` where it ends after the last date."""
    start_on = document.start_on or datetime.now(UTC).date()
    _refuse_late(start_on, period_days)
    return start_on


def _refuse_unknown(currency: str) -> None:
    try:
        minor_digits(currency)
    except MoneyError as error:
        fault = FieldFault(pointer="/currency", code=error.code, detail=str(error))
        raise InvalidError(str(error), errors=[fault]) from error


def _refuse_late(start_on: date, period_days: int) -> None:
    if period_days > (date.max - start_on).days:
        detail = f"{period_days} days from {start_on} end after {date.max}"
        raise InvalidError(
            "the window ends after the last date",
            errors=[FieldFault(pointer="/start_on", code="window_too_late", detail=detail)],
        )
