"""Warnings of a report: each where it belongs, and with its numbers."""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from service.reports.budgets import outcome_of
from service.reports.loss_report import BudgetOutcome, ReportNotice
from service.reports.money import Money
from service.reports.report_notices import (
    NOTICES,
    notice,
    notices_of_budget,
    notices_of_comparison,
    notices_of_profiles,
    notices_of_side,
)
from service.reports.report_sides import ReportSide, paired
from tests.reports.report_rows import START, item, missing, point, side, window
from tests.reports.test_budgets import euros, headline


def told(found: Iterable[ReportNotice]) -> dict[str, dict[str, Any]]:
    return {one.code: dict(one.params) for one in found}


def of_side(one: ReportSide, **changes: Any) -> dict[str, dict[str, Any]]:
    given: dict[str, Any] = {"state": "succeeded", "points_failed": 0, "points_total": 9}
    return told(notices_of_side(one, **given | changes))


def compared(past: ReportSide, new: ReportSide) -> dict[str, dict[str, Any]]:
    return told(notices_of_comparison(past, new, paired(past, new)))


def test_a_sound_batch_has_no_warnings() -> None:
    assert of_side(side(item("a"), item("b"))) == {}
    later = item("a", start_on=START + timedelta(days=30))
    assert compared(side(item("a")), side(later)) == {}


def test_every_sentence_takes_its_numbers() -> None:
    for code, sentence in NOTICES.items():
        found = notice(code, **dict.fromkeys(re.findall(r"{(\w+)}", sentence), "7"))
        assert "{" not in found.detail
        assert found.detail.endswith(".")


def test_what_has_no_numbers_is_counted_and_named() -> None:
    many = [missing(f"g{number}", "no_headline") for number in range(7)]
    found = of_side(
        side(missing("f", "failed"), missing("n", "not_computed"), *many, item("a")),
        state="expired",
        points_failed=2,
    )
    assert found == {
        "batch_incomplete": {"state": "expired"},
        "failed_points": {"failed": 2, "total": 9},
        "headline_failed": {"items": 1, "names": "f"},
        "headline_not_computed": {"items": 1, "names": "n"},
        "items_without_headline": {"items": 7, "names": "g0, g1, g2, g3, g4, + 2"},
    }


def test_days_without_a_rate_are_told_where_money_was_asked_for() -> None:
    partly = item("p", window=window(("2.00", 20), unpriced=10))
    never = item("n", window=window(unpriced=30))
    assert of_side(side(item("a"), partly, never)) == {
        "unpriced_days": {"items": 2, "names": "p, n", "days": 40}
    }
    assert of_side(side(partly, never, currency=None)) == {}


def test_numbers_that_are_less_sure_than_they_look() -> None:
    sampled = item("s", found=point(gpu_hours_lost_se=2.5))
    sure = item("t", found=point(gpu_hours_lost_se=0.5))
    lossless = item("z", found=point(gpu_hours_lost=0.0, gpu_hours_lost_se=1.0))
    no_spread = item("m", found=point(gpu_hours_lost_p90=None))
    beyond = item("x", found=replace(point(), is_extrapolated=True))
    assert of_side(side(sampled, sure, lossless, no_spread, beyond)) == {
        "sampled": {"items": 1, "names": "s", "percent": "2.5"},
        "spread_not_computed": {"items": 1, "names": "m"},
        "extrapolated_tail": {"items": 1, "names": "x"},
    }


def test_what_makes_two_batches_unlike() -> None:
    past = side(
        item("a"), item("b"), item("gone"), item("c"), item("d1", name="d"), item("d2", name="d")
    )
    new = side(
        item("a", start_on=START + timedelta(days=1)),
        item("b", period_days=15, start_on=START + timedelta(days=20)),
        missing("c", "failed"),
        item("e", found=point(ideal_step_ms=95.0)),
        item("d1", name="d", found=point(ideal_step_ms=91.0)),
        currency="USD",
        model="3.1",
    )
    assert compared(past, new) == {
        "model_version_changed": {"past": "3.0", "new": "3.1"},
        "currencies_differ": {"past": "EUR", "new": "USD"},
        "unmatched_items": {"appeared": 1, "gone": 2},
        "counterpart_missing": {"items": 1, "names": "c"},
        "ambiguous_names": {"names": "d"},
        "windows_overlap": {"items": 3, "days": 30},
        "window_length_changed": {"items": 1, "names": "b"},
        "ideal_changed": {"items": 1, "names": "d"},
    }


def test_profiles_that_runs_have_drifted_away_from() -> None:
    assert told(notices_of_profiles([])) == {}
    assert told(notices_of_profiles(["a", "b"])) == {"profile_drifted": {"names": "a, b"}}


def test_a_model_without_an_ideal_step_says_nothing_of_it() -> None:
    old = item("a", found=point(ideal_step_ms=None), start_on=START - timedelta(days=30))
    assert compared(side(old), side(item("a", found=point(ideal_step_ms=None)))) == {}


def unknown(*, money: bool, hours: bool = False) -> BudgetOutcome | None:
    cost = Money(amount="1.00", currency="EUR") if money else None
    return outcome_of(
        headline(1.0, None), gpu_hours=100.0 if hours else None, cost=cost, is_complete=False
    )


def test_why_a_budget_is_not_known() -> None:
    assert told(notices_of_budget(unknown(money=True), 0)) == {"budget_unknown": {}}
    assert told(notices_of_budget(unknown(money=False, hours=True), 3)) == {
        "budget_incomplete": {"items": 3}
    }
    nothing = replace(headline(0.0, None), items=0)
    unmeasured = outcome_of(nothing, gpu_hours=2.0, cost=euros("1"), is_complete=False)
    assert told(notices_of_budget(unmeasured, 4)) == {"budget_incomplete": {"items": 4}}
    assert told(notices_of_budget(None, 3)) == {}
    within = outcome_of(headline(1.0), gpu_hours=2.0, cost=None, is_complete=True)
    assert told(notices_of_budget(within, 0)) == {}
