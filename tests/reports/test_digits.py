import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.digits import (
    amount,
    gpu_hours,
    grouped,
    milliseconds,
    percent,
    signed,
    whole,
)


@pytest.mark.parametrize(
    ("hours", "shown"),
    [
        # the founding page's figures, as it prints them
        (176008.48806366057, "176 008"),
        (11000.53, "11 001"),
        (5866.949, "5 867"),
        (366.684, "366.7"),
        (-1234.5, "-1 234"),
        (9.996, "10"),
        (0.012345, "0.0123"),
        (0.0, "0"),
        (None, "-"),
    ],
)
def test_gpu_hours_are_whole_from_1000_on(hours: float | None, shown: str) -> None:
    assert gpu_hours(hours) == shown


@pytest.mark.parametrize(
    ("duration", "shown"),
    [
        (538.5714285714287, "538.57"),
        (30.0, "30.00"),
        (1234.567, "1 234.6"),
        (123456.7, "123 457"),
        (0.123456, "0.1235"),
        (0.0, "0"),
        (None, "-"),
    ],
)
def test_milliseconds_have_few_decimals(duration: float | None, shown: str) -> None:
    assert milliseconds(duration) == shown


def test_fractions_are_percentages_with_two_decimals() -> None:
    assert percent(0.8937831) == "89.38"
    assert percent(-0.00001) == "0.00"
    assert percent(None) == "-"


def test_counts_are_grouped() -> None:
    assert whole(131072) == "131 072"
    assert whole(None) == "-"
    assert grouped(12345.6, 2) == "12 345.60"


@pytest.mark.parametrize(
    ("digits", "shown"),
    [("369617.82", "369 617.82"), ("-1234", "-1 234"), ("0.50", "0.50"), ("-0.05", "-0.05")],
)
def test_amounts_keep_their_digits(digits: str, shown: str) -> None:
    assert amount(digits) == shown


@given(digits=st.from_regex(r"-?[1-9][0-9]{0,30}(\.[0-9]{1,4})?", fullmatch=True))
def test_amounts_only_gain_spaces(digits: str) -> None:
    assert amount(digits).replace(" ", "") == digits


@pytest.mark.parametrize(
    ("text", "shown"),
    [("12.3", "+12.3"), ("-12.3", "-12.3"), ("0", "0"), ("0.00", "0.00"), ("0.00 EUR", "0.00 EUR")],
)
def test_changes_say_where_they_go(text: str, shown: str) -> None:
    assert signed(text) == shown
