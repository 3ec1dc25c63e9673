"""Numbers, money and times for the eye, as a language writes them; units are its caller's.

A number has as many digits as its standard error leaves certain, at most those that a reader can
use: whole GPU-hours from 1 000 on, one decimal from 10 on, three digits below.
"""

import math
import re
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from babel import Locale, dates, numbers
from msgspec import Struct

from service.reports.money import Money

MINUS = "\N{MINUS SIGN}"
# The method is good to 1e-8 and better.
_MOST_DIGITS = 8
_MOST_DECIMALS = 3
# An amount has up to 400 characters.
_PRECISION = 450
# GPU-hours that `hours` would round to 0, and those that would be a row of zeros
_TINY = 1e-3
_TINIEST = 1e-6
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# CLDR sets a currency off that ends in a letter: KWD 1.00, but £1.00
_LETTER_BEFORE_DIGIT = re.compile(r"(?<=[A-Za-z])(?=[0-9])")


class Numbers(Struct, frozen=True):
    """How one language writes them."""

    locale: Locale

    def hours(self, hours: float, error: float | None = None) -> str:
        """GPU-hours, without the unit."""
        return self._decimal(hours, decimals(hours, error))

    def limit_hours(self, hours: float) -> str:
        """GPU-hours of a limit, which is exact: never 0 where it is not, and with all digits."""
        if abs(hours) >= 10.0**_MOST_DIGITS:
            return self.count(round(hours))
        if not 0 < abs(hours) < _TINY:
            return self.hours(hours)
        if abs(hours) >= _TINIEST:
            return self._decimal(hours, 1 - math.floor(math.log10(abs(hours))))
        mantissa, _, exponent = f"{hours:.1e}".partition("e")
        power = str(int(exponent)).translate(_SUPERSCRIPTS)
        return f"{self._decimal(float(mantissa), 1)}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10{power}"  # noqa: RUF001 - times

    def exact(self, number: float) -> str:
        """A number as it was given, with all its digits."""
        if isinstance(number, int):
            return self.count(number)
        places = len(f"{Decimal(repr(number)):f}".partition(".")[2])
        return self._decimal(number, places)

    def signed_hours(self, hours: float, error: float | None = None) -> str:
        """A difference of GPU-hours: + before what rose."""
        return _signed(self.hours(hours, error))

    def error(self, error: float) -> str:
        """A standard error: one digit, or two where the first is a 1."""
        place = -math.floor(math.log10(error))
        digits = place + 1 if error * 10.0**place < 2 else place
        return self._decimal(error, min(digits, _MOST_DECIMALS))

    def percent(self, fraction: float, decimals_shown: int = 1) -> str:
        """A fraction as a percentage, with its sign of percent."""
        pattern = self.locale.percent_formats[None].pattern.replace(
            "#,##0", f"#,##0{_places(decimals_shown)}"
        )
        shown = Decimal(repr(fraction))
        if not round(shown, decimals_shown + 2):
            # Less than what is shown is 0, and not a 0 below 0.
            shown = Decimal(0)
        return _typeset(numbers.format_percent(shown, format=pattern, locale=self.locale))

    def signed_percent(self, fraction: float) -> str:
        """A relative change."""
        return _signed(self.percent(fraction))

    def count(self, number: int) -> str:
        """A whole number."""
        return self._decimal(number, 0)

    def money(self, amount: Money) -> str:
        """Money with all its digits: it adds up to the cent."""
        point = amount.amount.partition(".")[2]
        pattern = self.locale.currency_formats["standard"].pattern.replace(
            "0.00", f"0{_places(len(point))}"
        )
        with localcontext() as context:
            context.prec = _PRECISION
            shown = numbers.format_currency(
                Decimal(amount.amount),
                amount.currency,
                format=pattern,
                locale=self.locale,
                currency_digits=False,
            )
        return _typeset(_LETTER_BEFORE_DIGIT.sub("\N{NO-BREAK SPACE}", shown))

    def signed_money(self, amount: Money) -> str:
        """A difference of money."""
        return _signed(self.money(amount))

    def day(self, day: date) -> str:
        """30 Nov 2026; the first of a month is `1er` in French."""
        shown: str = dates.format_date(day, "d MMM y", locale=self.locale)
        return f"1er{shown[1:]}" if day.day == 1 and self.locale.language == "fr" else shown

    def moment(self, moment: datetime) -> str:
        """30 Nov 2026, 02:30 UTC."""
        shown = moment.astimezone(UTC)
        return f"{self.day(shown.date())}, {shown:%H:%M} UTC"

    def local(self, local_time: str) -> str:
        """An ISO 8601 wall time as 30 Nov 2026, 02:30; the zone stands beside it."""
        shown = datetime.fromisoformat(local_time)
        return f"{self.day(shown.date())}, {shown:%H:%M}"

    def plural(self, number: int) -> str:
        """The form that goes with the number: one, other (French has them for 0 and for 2)."""
        return "one" if self.locale.plural_form(number) == "one" else "other"

    def _decimal(self, number: float, shown_decimals: int) -> str:
        exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
        with localcontext() as context:
            context.prec = _PRECISION
            shown = exact.quantize(Decimal(1).scaleb(-shown_decimals), rounding=ROUND_HALF_EVEN)
            if not shown:
                return "0"
            pattern = f"#,##0{_places(max(shown_decimals, 0))}"
            return _typeset(numbers.format_decimal(shown, pattern, self.locale))


def decimals(hours: float, error: float | None) -> int:
    """Decimals to show; below 0, digits before the point that are not certain."""
    size = abs(hours)
    magnitude = math.floor(math.log10(size)) if size else 0
    usable = 0 if size >= 1000 else 1 if size >= 10 else min(2 - magnitude, _MOST_DECIMALS)
    shown = min(usable, _MOST_DIGITS - 1 - magnitude)
    return min(shown, -math.floor(math.log10(error))) if error else shown


def _places(number: int) -> str:
    return "." + "0" * number if number else ""


def _typeset(text: str) -> str:
    return text.replace("-", MINUS)


def _signed(text: str) -> str:
    rose = MINUS not in text and any(digit in text for digit in "123456789")
    return f"+{text}" if rose else text
