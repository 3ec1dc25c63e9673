"""A price that is typed with a question, in place of stored rates. It is never stored.

It is the caller's own figure: no scope is needed to see what it makes of GPU-hours, nothing is read
from the stored rates, and the reading of money is not recorded.
"""

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Final

from msgspec import Meta

from service.errors import FieldFault, InvalidError
from service.jobs.evaluation_prices import TYPED, EvaluationRates, PricedIn, first_day
from service.reports.money import Money, MoneyError, parse_price
from service.reports.pricing import Rate

POINTER: Final = "/price_per_gpu_hour"


class TypedPriceIn(PricedIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields that ask for money of stored rates, or of one price for all days."""

    price_per_gpu_hour: (
        Annotated[
            Money,
            Meta(
                description="A typed price instead of stored rates, for all days alike: a decimal "
                "text above 0, never a float, at most 12 digits before and after the point. Not "
                "beside `currency` or `pricing`; never stored. It is yours: `costs` holds money "
                "without the scope costs:read.",
                examples=[{"amount": "2.10", "currency": "EUR"}],
            ),
        ]
        | None
    ) = None


def typed_rates(document: TypedPriceIn, period_days: int) -> EvaluationRates | None:
    """The typed price as a rate for all days; None without one.

    Raises `InvalidError` for a price that no stored rate could have, beside fields of stored rates,
    and for a window that ends after the last date.
    """
    price = document.price_per_gpu_hour
    if price is None:
        return None
    faults = [*_beside(document), *_of_price(price)]
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)
    return EvaluationRates(
        currency=price.currency,
        start_on=first_day(document, period_days),
        rates=(Rate(id=TYPED, price=parse_price(price), valid_from=date.min),),
    )


def _beside(document: TypedPriceIn) -> Iterator[FieldFault]:
    for name in ("currency", "pricing"):
        if getattr(document, name) is not None:
            detail = (
                f"{name} asks for stored rates, and price_per_gpu_hour is given instead of them"
            )
            yield FieldFault(pointer=f"/{name}", code="price_is_typed", detail=detail)


def _of_price(price: Money) -> Iterator[FieldFault]:
    try:
        parse_price(price)
    except MoneyError as error:
        yield FieldFault(pointer=f"{POINTER}/{error.field}", code=error.code, detail=str(error))
