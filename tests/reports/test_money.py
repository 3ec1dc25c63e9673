from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.money import (
    Money,
    MoneyError,
    apportion,
    minor_digits,
    money,
    parse_price,
    rounded,
    total,
)

AMOUNTS = st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**9)
CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD", "CLF"])


@pytest.mark.parametrize(
    ("currency", "digits"), [("EUR", 2), ("USD", 2), ("JPY", 0), ("KWD", 3), ("CLF", 4)]
)
def test_minor_unit_is_that_of_iso_4217(currency: str, digits: int) -> None:
    assert minor_digits(currency) == digits


@pytest.mark.parametrize(
    ("currency", "code"),
    [
        ("eur", "malformed_currency"),
        ("EURO", "malformed_currency"),
        ("EUR\n", "malformed_currency"),
        ("", "malformed_currency"),
        ("ABC", "unknown_currency"),
        ("HRK", "unknown_currency"),  # replaced by the euro in 2023
        ("XAU", "not_monetary"),
        ("XXX", "not_monetary"),
        ("XTS", "not_monetary"),
        ("XDR", "not_monetary"),
    ],
)
def test_what_is_no_currency_is_refused(currency: str, code: str) -> None:
    with pytest.raises(MoneyError) as caught:
        minor_digits(currency)
    assert (caught.value.field, caught.value.code) == ("currency", code)
    assert repr(currency) in str(caught.value)


def test_price_keeps_every_digit() -> None:
    assert str(parse_price(Money(amount="2.10500", currency="EUR"))) == "2.10500"
    assert parse_price(Money(amount="000.000000000001", currency="JPY")) == Decimal("1e-12")


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        ("0", "not_positive"),
        ("0.000", "not_positive"),
        ("-1", "malformed_amount"),
        ("+1", "malformed_amount"),
        ("1e3", "malformed_amount"),
        ("1,5", "malformed_amount"),
        ("NaN", "malformed_amount"),
        ("Infinity", "malformed_amount"),
        ("1.", "malformed_amount"),
        (".5", "malformed_amount"),
        ("1_000", "malformed_amount"),
        ("\u0661", "malformed_amount"),  # an Arabic-Indic one: Decimal would take it
        ("1" * 13, "malformed_amount"),
        ("1." + "1" * 13, "malformed_amount"),
    ],
)
def test_what_is_no_price_is_refused(amount: str, code: str) -> None:
    with pytest.raises(MoneyError) as caught:
        parse_price(Money(amount=amount, currency="EUR"))
    assert (caught.value.field, caught.value.code) == ("amount", code)


def test_price_in_no_currency_is_refused() -> None:
    with pytest.raises(MoneyError, match="XAU"):
        parse_price(Money(amount="1.00", currency="XAU"))


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        ("0.125", "EUR", "0.12"),
        ("0.135", "EUR", "0.14"),
        ("-0.125", "EUR", "-0.12"),
        ("0.1250000000000001", "EUR", "0.13"),
        ("2.5", "JPY", "2"),
        ("3.5", "JPY", "4"),
        ("1", "KWD", "1.000"),
        ("-0.001", "EUR", "0.00"),
        ("123456789012345678901234567890.125", "EUR", "123456789012345678901234567890.12"),
    ],
)
def test_rounding_is_half_even_at_the_minor_unit(amount: str, currency: str, shown: str) -> None:
    assert money(Decimal(amount), currency) == Money(amount=shown, currency=currency)


@given(amount=AMOUNTS, currency=CURRENCIES)
def test_rounding_moves_by_half_a_unit_at_most(amount: Fraction, currency: str) -> None:
    shown = rounded(amount, currency)
    assert abs(Fraction(shown) - amount) <= Fraction(1, 2 * 10 ** minor_digits(currency))
    assert shown.as_tuple().exponent == -minor_digits(currency)


@given(amount=AMOUNTS, currency=CURRENCIES)
def test_shown_money_is_accepted_as_money(amount: Fraction, currency: str) -> None:
    shown = money(amount, currency)
    assert msgspec.json.decode(msgspec.json.encode(shown), type=Money) == shown


def test_money_document_refuses_a_float_and_an_unknown_field() -> None:
    for text in (
        '{"amount": 1.0, "currency": "EUR"}',
        '{"amount": "1.0", "currency": "EUR", "x": 1}',
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=Money)


def test_total_has_no_holes() -> None:
    assert total([Fraction(1, 3), Fraction(2, 3)]) == 1
    assert total([]) == 0
    assert total([Fraction(1), None]) is None


def test_thirds_of_a_euro_add_up() -> None:
    parts = apportion([Fraction(1, 3)] * 3, "EUR")
    assert parts == [Decimal("0.34"), Decimal("0.33"), Decimal("0.33")]


@given(parts=st.lists(AMOUNTS, max_size=8), currency=CURRENCIES)
def test_parts_add_up_and_stay_within_a_unit(parts: list[Fraction], currency: str) -> None:
    shown = apportion(parts, currency)
    assert sum(shown, Decimal(0)) == rounded(sum(parts, Fraction(0)), currency)
    unit = Fraction(1, 10 ** minor_digits(currency))
    assert all(abs(Fraction(a) - b) < unit for a, b in zip(shown, parts, strict=True))


@given(parts=st.lists(AMOUNTS, min_size=1, max_size=4), off=st.integers(-3, 3))
def test_parts_add_up_to_a_total_that_was_rounded_elsewhere(
    parts: list[Fraction], off: int
) -> None:
    exact = sum(parts, Fraction(0)) * 100
    shown_total = Decimal(round(exact) + off).scaleb(-2)
    if abs(round(exact) + off - exact) > 2:
        with pytest.raises(ValueError, match="is not the total"):
            apportion(parts, "EUR", shown_total=shown_total)
        return
    shown = apportion(parts, "EUR", shown_total=shown_total)
    assert sum(shown, Decimal(0)) == shown_total
    assert all(abs(Fraction(a) - b) <= Fraction(3, 100) for a, b in zip(shown, parts, strict=True))


def test_what_is_nothing_stays_nothing() -> None:
    parts = [Fraction(0), Fraction(1, 200), Fraction(0)]
    assert apportion(parts, "EUR", shown_total=Decimal("0.02"))[0] == 0
    assert apportion(parts, "EUR", shown_total=Decimal("-0.01"))[1] == Decimal("-0.01")


def test_nothing_adds_up_to_nothing_only() -> None:
    assert apportion([], "EUR", shown_total=Decimal("0.00")) == []
    with pytest.raises(ValueError, match=r"0\.01 EUR is not the total of the 0 parts"):
        apportion([], "EUR", shown_total=Decimal("0.01"))
