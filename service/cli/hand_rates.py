"""A price of a GPU-hour that is given on the command line."""

from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import rich_click as click

from service.jobs.evaluation_prices import EvaluationRates
from service.reports.money import Money, MoneyError, parse_price
from service.reports.pricing import Rate

# The one rate of a price that is given by hand.
BY_HAND = str(UUID(int=0))


def rates_by_hand(price: str | None, currency: str | None) -> EvaluationRates | None:
    """One rate for all days; None without a price. Raises `click.UsageError` for half of it."""
    if price is None and currency is None:
        return None
    if price is None or currency is None:
        raise click.UsageError("--price and --currency go together")
    try:
        amount: Decimal = parse_price(Money(amount=price, currency=currency))
    except MoneyError as error:
        raise click.UsageError(str(error)) from error
    return EvaluationRates(
        currency=currency,
        start_on=datetime.now(UTC).date(),
        rates=(Rate(id=BY_HAND, price=amount, valid_from=date.min),),
    )
