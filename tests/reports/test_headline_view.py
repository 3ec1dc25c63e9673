from datetime import date

import pytest
from msgspec import structs

from service.reports.budget_view import budget_view
from service.reports.changes import change
from service.reports.headline_view import about, headline_view, past_name
from service.reports.language import words
from service.reports.loss_report import BudgetOutcome
from service.reports.money import CostStatus, Money
from service.reports.report_sections import report_sections
from service.reports.report_text import report_text
from tests.reports import loss_reports

ENGLISH = words("en")
MINUS = "\N{MINUS SIGN}"


def euros(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def test_windows_begin_where_the_items_do() -> None:
    """Not where the batch does: each item may say a day of its own."""
    report = loss_reports.realistic()
    later = structs.replace(report.items[0], start_on=date(2027, 1, 1))
    both = structs.replace(report, items=[later, report.items[1]])
    assert about(both, ENGLISH)[1] == "loss windows 30 days, the first from 1 Dec 2026"
    alone = structs.replace(report, items=[later])
    assert about(alone, words("fr"))[1].endswith("30 jours à partir du 1er janv. 2027")
    week = structs.replace(later, period_days=7)
    lengths = structs.replace(report, items=[later, week])
    assert about(lengths, ENGLISH)[1] == "loss window of several lengths from 1 Jan 2027"


def test_what_rose_is_worse_and_what_fell_is_better() -> None:
    report = loss_reports.realistic()
    view = headline_view(report, ENGLISH)
    assert view.lost_move is not None
    assert (view.lost_move.mark, view.lost_move.meaning) == ("worse", "more is lost")
    rose = report.headline.gpu_hours_lost_change
    assert rose is not None
    fell = structs.replace(rose, difference=-4_000.0, relative=None)
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
    cost = report.headline.cost_of_loss_change
    assert cost is not None
    same = structs.replace(cost, difference=euros("0.00"), relative=0.0)
    head = structs.replace(report.headline, cost_of_loss_change=same)
    move = headline_view(structs.replace(report, headline=head), ENGLISH).cost_move
    assert move is not None
    assert (move.text, move.mark) == ("no change against 29 Nov 2026, 01:30 UTC", "")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"items_failed": 1}, "On one side only: 1 without numbers now."),
        ({"items_returned": 2}, "On one side only: 2 with numbers again."),
        ({"items_appeared": 1, "items_gone": 3}, "On one side only: 1 appeared, 3 gone."),
    ],
)
def test_what_is_on_one_side_only_never_reads_as_no_change(
    counts: dict[str, int], said: str
) -> None:
    """What can be compared did not move; a headline that failed or came back moved all the same."""
    report = loss_reports.realistic()
    cost = report.headline.cost_of_loss_change
    assert cost is not None
    head = structs.replace(
        report.headline,
        gpu_hours_lost_change=change(392.0, 392.0),
        cost_of_loss_change=structs.replace(
            cost, difference=euros("0.00"), volume_effect=None, price_effect=None
        ),
        volume=[],
        rates=[],
        gpu_hours_lost_per_30_days=392.0,
        past_gpu_hours_lost_per_30_days=317_409.0,
    )
    still = structs.replace(report, headline=head, movers=[])
    part = structs.replace(still, headline=structs.replace(head, **counts))
    whole, view = headline_view(still, ENGLISH), headline_view(part, ENGLISH)
    assert whole.lost_move is not None
    assert whole.lost_move.text == "no change against 29 Nov 2026, 01:30 UTC"
    for move in (view.lost_move, view.cost_move):
        assert move is not None
        assert move.text == (
            "against 29 Nov 2026, 01:30 UTC only a part can be compared, and that did not move"
        )
    assert whole.compared == "The change is of the 10 items that both runs have."
    assert view.compared == (
        f"{whole.compared} {said} All items together: 317,409 GPU-hours before, 392.0 now."
    )
    assert view.compared in report_text(part, "en")
    changed = report_sections(part, ENGLISH)[0]
    assert changed.paragraphs == [view.compared]
    assert report_sections(still, ENGLISH)[0].paragraphs == [
        "Nothing changed: the GPU-hours and the prices are those of the run before."
    ]


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


def test_a_cost_that_is_known_in_part_is_at_least_that() -> None:
    report = loss_reports.realistic()
    assert report.budget is not None
    head = structs.replace(
        report.headline,
        cost_of_loss_per_30_days=None,
        cost_status=CostStatus.PARTLY_PRICED,
        priced_cost_per_30_days=euros("333.30"),
        items_unpriced=3,
        unpriced_days=40,
    )
    budget = structs.replace(
        report.budget,
        status="unknown",
        gpu_hours_budget_per_30_days=None,
        cost_of_loss_per_30_days=None,
        priced_cost_per_30_days=euros("333.30"),
        cost_budget_per_30_days=euros("400.00"),
        reason_unknown="no_rate",
    )
    partly = structs.replace(report, headline=head, budget=budget)
    view = headline_view(partly, ENGLISH)
    assert (view.cost, view.cost_note) == ("at least €333.30", "3 items without a rate, 40 days")
    assert view.is_cost_known
    assert view.budget.lines == [
        "at least €333.30 of €400.00 (83% used)",
        "not all days have a rate",
    ]
    text = report_text(partly, "en")
    assert "Cost: at least €333.30 (3 items without a rate, 40 days)" in text
    assert "Budget: not known, at least €333.30 of €400.00 (83% used), not all days" in text


def test_tiny_budgets_are_not_nothing() -> None:
    report = loss_reports.realistic()
    assert report.budget is not None
    said = []
    for lost, allowed in ((5e-5, 1e-4), (1e3, 2.5e-9), (0.0, 1e-6), (5e3, 123456789012345.0)):
        tiny = structs.replace(
            report.budget,
            gpu_hours_lost_per_30_days=lost,
            gpu_hours_budget_per_30_days=allowed,
            cost_budget_per_30_days=None,
        )
        said += budget_view(structs.replace(report, budget=tiny), ENGLISH).lines
    power = "2.5\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10⁻⁹"  # noqa: RUF001 - times
    assert said == [
        "0.000050 of 0.00010 GPU-hours (50% used)",
        f"1,000 of {power} GPU-hours (more than 1,000 times used)",
        "0 of 0.0000010 GPU-hours (0% used)",
        "5,000 of 123,456,789,012,345 GPU-hours (0% used)",
    ]


def test_a_budget_that_is_just_passed_says_by_how_much() -> None:
    report = loss_reports.realistic()
    assert report.budget is not None
    passed = structs.replace(
        report.budget,
        gpu_hours_lost_per_30_days=176_008.4,
        gpu_hours_budget_per_30_days=176_008.0,
        cost_of_loss_per_30_days=euros("100.01"),
        cost_budget_per_30_days=euros("100"),
    )
    exact = structs.replace(report.headline, gpu_hours_lost_se_per_30_days=None)
    changed = structs.replace(report, headline=exact, budget=passed)
    assert budget_view(changed, ENGLISH).lines == [
        "176,008 of 176,008 GPU-hours (100% used), over by 0.400 GPU-hours",
        "€100.01 of €100 (100% used), over by €0.01",
    ]


def test_a_cost_that_is_over_before_it_is_rounded() -> None:
    report = loss_reports.realistic()
    assert report.budget is not None
    rounded = structs.replace(
        report.budget,
        status="over",
        gpu_hours_budget_per_30_days=None,
        cost_of_loss_per_30_days=euros("100.00"),
        cost_budget_per_30_days=euros("100.003"),
    )
    assert budget_view(structs.replace(report, budget=rounded), ENGLISH).lines == [
        "€100.00 of €100.003 (100% used), over by less than €0.01"
    ]


def test_a_baseline_is_known_by_its_local_time() -> None:
    report = loss_reports.realistic()
    assert report.baseline is not None
    local = structs.replace(
        report.baseline, local_time="2026-11-29T02:30:00+01:00", zone="Europe/Paris"
    )
    same = structs.replace(report, baseline=local)
    assert past_name(same, ENGLISH) == "29 Nov 2026, 02:30"
    by_hand = structs.replace(same, run=None)
    assert past_name(by_hand, ENGLISH) == "29 Nov 2026, 02:30 (Europe/Paris)"
