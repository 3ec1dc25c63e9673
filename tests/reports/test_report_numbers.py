from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from babel import Locale

from service.reports.money import Money
from service.reports.report_numbers import Numbers, decimals

ENGLISH, FRENCH = Numbers(Locale("en")), Numbers(Locale("fr"))
# Unicode CLDR: French groups by U+202F, and sets % and the currency off by U+00A0
THIN, HARD = "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("hours", "error", "english", "french"),
    [
        (176_008.488, None, "176,008", f"176{THIN}008"),
        (176_008.488, 0.0, "176,008", f"176{THIN}008"),
        (176_008.488, 340.0, "176,000", f"176{THIN}000"),
        (176_058.0, 34.0, "176,060", f"176{THIN}060"),
        (-1_234.5, None, "\N{MINUS SIGN}1,234", f"\N{MINUS SIGN}1{THIN}234"),
        (12.345, None, "12.3", "12,3"),
        (1.2345, None, "1.23", "1,23"),
        (0.01234, None, "0.012", "0,012"),
        (0.0, None, "0", "0"),
        (-1e-7, None, "0", "0"),
        (0.5, 3.0, "0", "0"),
        (123_456_789_012.3, None, "123,456,790,000", f"123{THIN}456{THIN}790{THIN}000"),
        (1e15, None, "1,000,000,000,000,000", None),
    ],
)
def test_hours_have_as_many_digits_as_are_certain(
    hours: float, error: float | None, english: str, french: str | None
) -> None:
    assert ENGLISH.hours(hours, error) == english
    assert french is None or FRENCH.hours(hours, error) == french


@pytest.mark.parametrize(
    ("error", "shown"),
    [(340.0, "300"), (123.0, "120"), (199.0, "200"), (0.0456, "0.05"), (1e-9, "0"), (7.0, "7")],
)
def test_a_standard_error_has_one_digit_or_two(error: float, shown: str) -> None:
    assert ENGLISH.error(error) == shown


def test_decimals_below_zero_round_before_the_point() -> None:
    assert decimals(176_008.0, 340.0) == -2
    assert decimals(176_008.0, None) == 0
    assert decimals(3.0, 1e-6) == 2


def test_percentages() -> None:
    assert ENGLISH.percent(0.2387) == "23.9%"
    assert FRENCH.percent(0.2387) == f"23,9{THIN if THIN in FRENCH.percent(0.2) else HARD}%"
    assert ENGLISH.percent(1.04, 0) == "104%"
    assert ENGLISH.percent(12345.6) == "1,234,560.0%"
    assert ENGLISH.signed_percent(0.032) == "+3.2%"
    assert ENGLISH.signed_percent(-0.5) == "\N{MINUS SIGN}50.0%"
    assert ENGLISH.signed_percent(0.0) == "0.0%"
    # A gain of next to nothing is no 0 below 0.
    assert ENGLISH.percent(-0.0004) == "0.0%"
    assert ENGLISH.percent(-0.004, 0) == "0%"
    assert ENGLISH.signed_percent(-0.0006) == "\N{MINUS SIGN}0.1%"


@pytest.mark.parametrize(
    ("amount", "currency", "english", "french"),
    [
        ("1353767.49", "EUR", "€1,353,767.49", f"1{THIN}353{THIN}767,49{HARD}€"),
        ("-12", "JPY", "\N{MINUS SIGN}¥12", None),
        ("2.105", "USD", "$2.105", f"2,105{HARD}$US"),
        ("1.00", "KWD", f"KWD{HARD}1.00", f"1,00{HARD}KWD"),
        (
            "123456789012345678901234567890.50",
            "EUR",
            "€123,456,789,012,345,678,901,234,567,890.50",
            None,
        ),
    ],
)
def test_money_keeps_its_digits(
    amount: str, currency: str, english: str, french: str | None
) -> None:
    money = Money(amount=amount, currency=currency)
    assert ENGLISH.money(money) == english
    assert french is None or FRENCH.money(money) == french


def test_a_difference_of_money_says_which_way() -> None:
    assert ENGLISH.signed_money(Money(amount="3.50", currency="EUR")) == "+€3.50"
    assert ENGLISH.signed_money(Money(amount="-3.50", currency="EUR")) == "\N{MINUS SIGN}€3.50"
    assert ENGLISH.signed_money(Money(amount="0.00", currency="EUR")) == "€0.00"
    assert ENGLISH.signed_hours(42.0) == "+42.0"


def test_times() -> None:
    summer = datetime(2026, 8, 3, 6, 5, tzinfo=timezone(timedelta(hours=2)))
    assert ENGLISH.moment(summer) == "3 Aug 2026, 04:05 UTC"
    assert FRENCH.moment(summer.astimezone(UTC)) == "3 août 2026, 04:05 UTC"
    assert FRENCH.day(date(2026, 12, 1)) == "1er déc. 2026"
    assert ENGLISH.day(date(2026, 12, 1)) == "1 Dec 2026"
    assert ENGLISH.local("2026-10-25T02:30:00+01:00") == "25 Oct 2026, 02:30"


def test_plurals_differ_between_the_languages() -> None:
    assert [ENGLISH.plural(number) for number in (0, 1, 2)] == ["other", "one", "other"]
    assert [FRENCH.plural(number) for number in (0, 1, 2)] == ["one", "one", "other"]
    assert ENGLISH.count(1024) == "1,024"
