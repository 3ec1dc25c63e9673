"""Money: decimal amounts in a currency, rounded once. No float is ever an amount.

Between the stored GPU-hours and the shown amount everything is an exact `Fraction`, because a
price averaged over 30 days (a division by 3) has no finite decimal form.
"""

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import iso4217
from msgspec import Meta, Struct

from service.reports.whole_costs import apportioned, rounded_ratio

_CODE = re.compile(r"[A-Z]{3}", re.ASCII)
_PRICE = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)


class Money(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An amount as decimal text (never a float) in an ISO 4217 currency."""

    amount: Annotated[
        str,
        Meta(
            pattern=r"^-?[0-9]+(\.[0-9]+)?$",
            max_length=400,
            description="Decimal digits; outputs are rounded to the currency's minor unit.",
            examples=["1.00"],
        ),
    ]
    currency: Annotated[
        str, Meta(pattern=r"^[A-Z]{3}$", description="ISO 4217 code", examples=["EUR"])
    ]


class CostStatus(StrEnum):
    """Why a cost is there or null. Having no rate is a normal state, no error."""

    PRICED = "priced"
    NO_RATE = "no_rate"
    PARTLY_PRICED = "partly_priced"
    WITHHELD = "withheld"


class MoneyError(ValueError):
    """An amount or a currency that cannot be accepted; `field` and `code` say which rule."""

    def __init__(self, detail: str, *, field: str, code: str) -> None:
        super().__init__(detail)
        self.field = field
        self.code = code


@lru_cache(maxsize=512)
def minor_digits(currency: str) -> int:
    """Decimals of the currency's minor unit: 2 for EUR, 0 for JPY, 3 for KWD.

    Raises MoneyError for a code that ISO 4217 does not list today, and for one that is no money
    to pay with (gold, test codes, special drawing rights: codes without a minor unit).
    """
    if _CODE.fullmatch(currency) is None:
        raise MoneyError(
            f"{currency!r} is no ISO 4217 code: three capital letters, such as EUR",
            field="currency",
            code="malformed_currency",
        )
    try:
        exponent: int | None = iso4217.Currency(currency).exponent
    except ValueError:
        raise MoneyError(
            f"{currency!r} is not in the ISO 4217 list of current currencies",
            field="currency",
            code="unknown_currency",
        ) from None
    if exponent is None:
        raise MoneyError(
            f"{currency!r} has no minor unit: it is not a currency that bills are paid in",
            field="currency",
            code="not_monetary",
        )
    return exponent


def parse_price(price: Money) -> Decimal:
    """The price per GPU-hour as a decimal above 0, with up to 12 digits before and after the point.

    A price may be finer than the minor unit (2.105 EUR). Raises MoneyError for anything else:
    a sign, an exponent, zero, a currency that `minor_digits` refuses.
    """
    minor_digits(price.currency)
    if _PRICE.fullmatch(price.amount) is None:
        raise MoneyError(
            f"{price.amount!r} is no price: plain decimal digits are needed, at most 12 before and "
            "12 after the point",
            field="amount",
            code="malformed_amount",
        )
    amount = Decimal(price.amount)
    if amount == 0:
        raise MoneyError(
            f"{price.amount!r} is no price: it must be above 0", field="amount", code="not_positive"
        )
    return amount


def rounded(amount: Fraction | Decimal, currency: str) -> Decimal:
    """The amount rounded half-even to the currency's minor unit, with exactly its decimals."""
    digits = minor_digits(currency)
    # In whole numbers: a comparison shows hundreds of amounts, and fractions take several times as
    # long for the same digits.
    numerator, denominator = amount.as_integer_ratio()
    return from_minor_units(rounded_ratio(numerator * 10**digits, denominator), digits)


def money(amount: Fraction | Decimal, currency: str) -> Money:
    """The amount as it is shown: rounded by `rounded`, plain digits."""
    return Money(amount=format(rounded(amount, currency), "f"), currency=currency)


def total(amounts: Iterable[Fraction | None]) -> Fraction | None:
    """Exact sum, or None where any part has no price: a sum with holes would look like a saving."""
    parts = list(amounts)
    priced = [part for part in parts if part is not None]
    return sum(priced, Fraction(0)) if len(priced) == len(parts) else None


def apportion(
    parts: Sequence[Fraction | Decimal],
    currency: str,
    *,
    shown_total: Fraction | Decimal | None = None,
    behind: Sequence[Fraction] | None = None,
) -> list[Decimal]:
    """The parts, each rounded up or down to the minor unit so that they add up to the total shown.

    The total is the rounded sum of the parts, or `shown_total` where the reader sees another (the
    difference of two rounded amounts, up to two minor units off). Largest remainder: every part
    starts at its floor, and the units left go one by one to the parts that are furthest below
    their exact value, the first of equals;
    a part of exactly 0 stays 0. `behind` is how far each was below its exact value before, by what
    it is added to. Raises ValueError for a total that is not theirs.
    """
    digits = minor_digits(currency)
    ratios = [part.as_integer_ratio() for part in (*parts, *(behind or ()))]
    common = math.lcm(*(denominator for _, denominator in ratios))
    # Minor units of each part times `common`, so that nothing is lost
    scaled = [numerator * (common // denominator) * 10**digits for numerator, denominator in ratios]
    exact, below = scaled[: len(parts)], scaled[len(parts) :]
    exact_total = sum(exact)
    if shown_total is None:
        shown = rounded_ratio(exact_total, common)
    else:
        numerator, denominator = shown_total.as_integer_ratio()
        shown = rounded_ratio(numerator * 10**digits, denominator)
    if abs(shown * common - exact_total) > (2 * common if exact else 0):
        parts_total = from_minor_units(rounded_ratio(exact_total, common), digits)
        raise ValueError(
            f"{from_minor_units(shown, digits)} {currency} is not the total of the {len(exact)} "
            f"parts, which add up to {parts_total}"
        )
    return [
        from_minor_units(unit, digits) for unit in apportioned(exact, common, shown, below or None)
    ]


def from_minor_units(units: int, digits: int) -> Decimal:
    """Exact, whatever the size: read from digits, not by arithmetic under a context."""
    return Decimal(f"{units}E-{digits}")
