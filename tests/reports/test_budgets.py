"""Budgets held against what is lost."""

from decimal import Decimal
from fractions import Fraction

import pytest
from msgspec import structs

from service.reports.budgets import outcome_of
from service.reports.loss_report import Headline
from service.reports.money import CostStatus, Money


def headline(
    lost: float,
    amount: str | None = "100.00",
    currency: str = "EUR",
    at_least: str | None = None,
) -> Headline:
    return Headline(
        items=1,
        items_compared=0,
        gpu_hours_available_per_30_days=1000.0,
        gpu_hours_lost_per_30_days=lost,
        gpu_hours_lost_se_per_30_days=None,
        loss_fraction=lost / 1000,
        gpu_hours_not_useful_per_30_days=lost,
        cost_of_loss_per_30_days=Money(amount=amount, currency=currency) if amount else None,
        cost_status=CostStatus.PRICED,
        gpu_hours_lost_change=None,
        cost_of_loss_change=None,
        volume=[],
        rates=[],
        priced_cost_per_30_days=Money(amount=at_least, currency=currency) if at_least else None,
        items_unpriced=2,
        unpriced_days=40,
    )


def euros(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


@pytest.mark.parametrize(
    ("hours", "cost", "is_complete", "status"),
    [
        (100.0, None, True, "within"),
        (99.999, None, True, "over"),
        (100.0, None, False, "unknown"),
        (99.0, None, False, "over"),
        (None, euros("100"), True, "within"),
        (None, euros("99.99"), True, "over"),
        (None, Money(amount="5.00", currency="USD"), True, "unknown"),
        (100.0, Money(amount="5.00", currency="USD"), True, "unknown"),
        (99.0, Money(amount="5.00", currency="USD"), True, "over"),
        (100.0, euros("99.99"), True, "over"),
        (99.0, euros("100.00"), True, "over"),
    ],
)
def test_over_wins_and_what_is_not_known_is_said(
    hours: float | None,
    cost: Money | None,
    is_complete: bool,  # noqa: FBT001 - a parameter of the table
    status: str,
) -> None:
    outcome = outcome_of(headline(100.0), gpu_hours=hours, cost=cost, is_complete=is_complete)
    assert outcome is not None
    assert outcome.status == status
    assert outcome.gpu_hours_lost_per_30_days == 100.0
    assert (outcome.gpu_hours_budget_per_30_days, outcome.cost_budget_per_30_days) == (hours, cost)


def test_money_is_only_in_the_outcome_of_a_budget_of_money() -> None:
    of_hours = outcome_of(headline(1.0), gpu_hours=2.0, cost=None, is_complete=True)
    of_money = outcome_of(headline(1.0), gpu_hours=None, cost=euros("1000"), is_complete=True)
    assert of_hours is not None
    assert of_hours.cost_of_loss_per_30_days is None
    assert of_money is not None
    assert of_money.cost_of_loss_per_30_days == euros("100.00")


def test_without_a_price_a_budget_of_money_is_not_known() -> None:
    found = outcome_of(headline(1.0, None), gpu_hours=None, cost=euros("1"), is_complete=True)
    assert found is not None
    assert (found.status, found.cost_of_loss_per_30_days) == ("unknown", None)


@pytest.mark.parametrize(
    ("at_least", "currency", "allowed", "status", "reason"),
    [
        ("100.01", "EUR", "100.00", "over", None),
        # It may be more
        ("100.00", "EUR", "100.00", "unknown", "no_rate"),
        ("900.00", "USD", "100.00", "unknown", "other_currency"),
        (None, "EUR", "100.00", "unknown", "no_rate"),
    ],
)
def test_what_is_priced_may_be_over_the_budget_by_itself(
    at_least: str | None, currency: str, allowed: str, status: str, reason: str | None
) -> None:
    found = outcome_of(
        headline(1.0, None, currency, at_least),
        gpu_hours=None,
        cost=euros(allowed),
        is_complete=True,
    )
    assert found is not None
    assert (found.status, found.reason_unknown) == (status, reason)
    assert (found.items_unpriced, found.unpriced_days) == (2, 40)
    shown = Money(amount=at_least, currency=currency) if at_least and currency == "EUR" else None
    assert found.priced_cost_per_30_days == shown


@pytest.mark.parametrize("is_priced", [True, False])
@pytest.mark.parametrize(
    ("exact", "allowed", "is_over"),
    [
        # Shown as 176008.49
        ("176008.488", "176008.489", False),
        ("176008.489", "176008.489", False),
        ("176008.4891", "176008.489", True),
        # Shown as 100.00
        ("100.004", "100.00", True),
        ("99.996", "100.00", False),
    ],
)
def test_a_budget_is_compared_with_what_was_not_rounded(
    exact: str,
    allowed: str,
    is_priced: bool,  # noqa: FBT001 - a parameter of the table
    is_over: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    shown = f"{Decimal(exact):.2f}"
    found = outcome_of(
        headline(1.0, shown if is_priced else None, at_least=shown),
        gpu_hours=None,
        cost=euros(allowed),
        is_complete=True,
        exact=Fraction(exact),
    )
    assert found is not None
    assert found.status == ("over" if is_over else "within" if is_priced else "unknown")


def test_items_without_numbers_are_a_reason() -> None:
    found = outcome_of(headline(1.0), gpu_hours=2.0, cost=None, is_complete=False)
    assert found is not None
    assert (found.reason_unknown, found.unpriced_days) == ("items_without_numbers", None)


@pytest.mark.parametrize("cost", [None, euros("1000000")])
@pytest.mark.parametrize("is_complete", [True, False])
def test_where_nothing_is_measured_nothing_is_within_a_budget(
    cost: Money | None,
    is_complete: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    nothing = structs.replace(headline(0.0, None), items=0)
    found = outcome_of(nothing, gpu_hours=1e9, cost=cost, is_complete=is_complete)
    assert found is not None
    assert (found.status, found.reason_unknown) == ("unknown", "items_without_numbers")


def test_no_budget_has_no_outcome() -> None:
    assert outcome_of(headline(1.0), gpu_hours=None, cost=None, is_complete=True) is None
