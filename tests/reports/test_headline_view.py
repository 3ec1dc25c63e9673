import pytest
from msgspec import structs

from service.reports.headline_view import budget_view, headline_view, past_name
from service.reports.language import words
from service.reports.loss_report import BudgetOutcome
from service.reports.money import Money
from tests.reports import loss_reports

ENGLISH = words("en")
MINUS = "\N{MINUS SIGN}"


def euros(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def test_what_rose_is_worse_and_what_fell_is_better() -> None:
    report = loss_reports.realistic()
    view = headline_view(report, ENGLISH)
    assert view.lost_move is not None
    assert (view.lost_move.mark, view.lost_move.meaning) == ("worse", "more is lost")
    change = report.headline.gpu_hours_lost_change
    assert change is not None
    fell = structs.replace(change, difference=-4_000.0, relative=None)
    head = structs.replace(report.headline, gpu_hours_lost_change=fell)
    better = headline_view(structs.replace(report, headline=head), ENGLISH).lost_move
    assert better is not None
    assert (better.text, better.mark, better.meaning) == (
        f"{MINUS}4,000",
        "better",
        "less is lost",
    )


def test_a_cost_that_did_not_move() -> None:
    report = loss_reports.realistic()
    change = report.headline.cost_of_loss_change
    assert change is not None
    same = structs.replace(change, difference=euros("0.00"), relative=0.0)
    head = structs.replace(report.headline, cost_of_loss_change=same)
    move = headline_view(structs.replace(report, headline=head), ENGLISH).cost_move
    assert move is not None
    assert (move.text, move.mark) == ("no change against 29 Nov 2026, 01:30 UTC", "")


def test_a_batch_without_a_slot_is_known_by_its_own_time() -> None:
    report = loss_reports.realistic()
    assert report.baseline is not None
    by_hand = structs.replace(report.baseline, scheduled_for=None)
    assert past_name(structs.replace(report, baseline=by_hand), ENGLISH).endswith("01:30 UTC")
    assert past_name(structs.replace(report, baseline=None), ENGLISH) == ""


@pytest.mark.parametrize(
    ("hours", "money", "lines", "used"),
    [
        ((50.0, 200.0), (None, None), ["50.0 of 200.0 GPU-hours (25% used)"], 0.25),
        ((50.0, None), ("30.00", "40.00"), ["€30.00 of €40.00 (75% used)"], 0.75),
        (
            (50.0, 200.0),
            ("80.00", "40.00"),
            ["50.0 of 200.0 GPU-hours (25% used)", "€80.00 of €40.00 (200% used)"],
            1.0,
        ),
        ((-50.0, 200.0), (None, None), [f"{MINUS}50.0 of 200.0 GPU-hours ({MINUS}25% used)"], 0.0),
        ((None, None), (None, "40.00"), [], None),
        ((None, None), ("1.00", "0.00"), [], None),
    ],
)
def test_budgets_show_how_much_is_used(
    hours: tuple[float | None, float | None],
    money: tuple[str | None, str | None],
    lines: list[str],
    used: float | None,
) -> None:
    report = loss_reports.realistic()
    cost, allowed = (amount and euros(amount) for amount in money)
    outcome = BudgetOutcome(
        status="within",
        gpu_hours_lost_per_30_days=hours[0],
        gpu_hours_budget_per_30_days=hours[1],
        cost_of_loss_per_30_days=cost or None,
        cost_budget_per_30_days=allowed or None,
    )
    exact = structs.replace(report.headline, gpu_hours_lost_se_per_30_days=None)
    view = budget_view(structs.replace(report, budget=outcome, headline=exact), ENGLISH)
    assert (view.lines, view.used) == (lines, used)
    assert view.title == "within budget"
