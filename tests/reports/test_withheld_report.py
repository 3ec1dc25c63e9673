import json
from typing import Any

import msgspec
import pytest
from msgspec import structs

from service.reports.language import LANGUAGES
from service.reports.loss_report import BudgetOutcome, LossReport, ReportNotice
from service.reports.money import Money
from service.reports.report_formats import FORMATS
from service.reports.report_notices import notice
from service.reports.report_table import report_json
from service.reports.report_text import report_text
from service.reports.withheld_report import withheld_budget, without_costs
from tests.reports import loss_reports

BUDGET = Money(amount="10.00", currency="EUR")


def test_no_amount_price_or_rate_is_left() -> None:
    report = loss_reports.realistic()
    priced = ReportNotice(code="unpriced_days", detail="Days without a rate: 3", params={"days": 3})
    report = structs.replace(report, warnings=[priced, *report.warnings])
    text = report_json(without_costs(report)).decode()
    assert '"amount"' in report_json(report).decode()
    for trace in ('"amount"', "0199c0de-0000-7000-8000-0000000000a", "Days without", '"priced"'):
        assert trace not in text, trace
    seen = json.loads(text)
    assert seen["headline"]["cost_status"] == "withheld"
    assert {item["unpriced_days"] for item in seen["items"]} == {None}
    assert seen["items"][0]["cost_change"]["status"] == "withheld"
    assert seen["reproduce"]["rate_ids"] == []
    assert [notice["code"] for notice in seen["warnings"]] == [
        "failed_points",
        "a_code_of_tomorrow",
    ]


def at_other_prices(found: Any) -> Any:
    """The same document where other rates, and fewer of them, price other days."""
    if isinstance(found, list):
        return [at_other_prices(one) for one in found]
    if not isinstance(found, dict):
        return found
    if found.keys() == {"amount", "currency"}:
        return {"amount": "7.77", "currency": found["currency"]}
    other: dict[str, Any] = {
        "rates": [],
        "rate_ids": ["0199c0de-0000-7000-8000-0000000000b9"],
        "rates_as_of": "2027-02-03T04:05:06Z",
        "pricing": 3,
        "cost_status": "partly_priced",
        "past_status": "no_rate",
        "cost_of_loss": None,
        "cost_of_loss_per_30_days": None,
        "cost_per_30_days": None,
        "unpriced_days": 17,
        "items_unpriced": 2,
        "price_days": [
            {"first_on": "2026-12-01", "days": 30, "rate_id": None, "price_per_gpu_hour": None}
        ],
    }
    kept = {name: at_other_prices(value) for name, value in found.items()}
    return kept | {name: value for name, value in other.items() if name in found}


def test_what_is_seen_without_money_does_not_depend_on_prices() -> None:
    """Not by what stands there, nor by what does not, in any format or language."""
    report = loss_reports.realistic()
    assert report.budget is not None
    assert report.budget.status == "over"
    over_by_money = structs.replace(report.budget, gpu_hours_budget_per_30_days=1e9)
    plain = json.loads(report_json(structs.replace(report, budget=over_by_money)))
    report = msgspec.convert(plain, LossReport)
    other = msgspec.convert(at_other_prices(plain), LossReport)
    assert other.budget is not None
    kept = [*report.reproduce.commands[:-1], f"{report.reproduce.commands[-1]} --pricing 3"]
    other = structs.replace(
        other,
        budget=structs.replace(other.budget, status="unknown", reason_unknown="no_rate"),
        warnings=[notice("unpriced_days", days=17, items=2, names="a, b"), *other.warnings],
        reproduce=structs.replace(other.reproduce, commands=kept),
    )
    seen, again = without_costs(report), without_costs(other)
    assert report_json(report) != report_json(other)
    assert report_json(seen) == report_json(again)
    for language in LANGUAGES:
        assert report_text(seen, language) == report_text(again, language)
    for name in ("csv", "focus"):
        written = [FORMATS[name].write(one, "en") for one in (report, other, seen, again)]
        assert written[0] != written[1]
        assert written[2] == written[3]


def test_gpu_hours_stay_as_they_are() -> None:
    report = loss_reports.realistic()
    seen = without_costs(report)
    assert [item.gpu_hours_lost for item in seen.items] == [
        item.gpu_hours_lost for item in report.items
    ]
    assert seen.headline.volume == report.headline.volume
    assert seen.headline.gpu_hours_lost_change == report.headline.gpu_hours_lost_change
    assert without_costs(seen) == seen


def test_what_is_not_there_stays_away() -> None:
    seen = without_costs(loss_reports.without_baseline())
    assert seen.baseline is None
    assert seen.budget is None
    assert seen.headline.cost_of_loss_change is None
    assert seen.items[0].cost_change is None


@pytest.mark.parametrize(
    ("lost", "allowed", "money", "status", "seen_lost"),
    [
        (50.0, 40.0, None, "over", 50.0),
        (50.0, 60.0, None, "within", 50.0),
        # GPU-hours alone say so
        (50.0, 40.0, BUDGET, "over", 50.0),
        # Money may have had a part in it
        (50.0, 60.0, BUDGET, "withheld", 50.0),
        (50.0, None, BUDGET, "withheld", None),
    ],
)
def test_a_status_that_money_had_a_part_in_is_withheld(
    lost: float, allowed: float | None, money: Money | None, status: str, seen_lost: float | None
) -> None:
    outcome = BudgetOutcome(
        status="over" if allowed is not None and lost > allowed else "within",
        gpu_hours_lost_per_30_days=lost,
        gpu_hours_budget_per_30_days=allowed,
        cost_of_loss_per_30_days=money,
        cost_budget_per_30_days=money,
        priced_cost_per_30_days=money,
        items_unpriced=1,
        unpriced_days=2,
        reason_unknown="no_rate",
    )
    seen = withheld_budget(outcome)
    assert seen.status == status
    assert seen.gpu_hours_lost_per_30_days == seen_lost
    assert seen.cost_budget_per_30_days is None
    assert seen.cost_of_loss_per_30_days is None
    assert (seen.priced_cost_per_30_days, seen.items_unpriced, seen.unpriced_days) == (None,) * 3
    assert (seen.reason_unknown is None) == (money is not None)


def test_why_a_budget_of_money_is_not_known_would_tell_that_it_is_not_over() -> None:
    report = loss_reports.realistic()
    told = [notice("budget_incomplete", items=1), notice("budget_unknown")]
    assert report.budget is not None
    of_hours = structs.replace(report.budget, cost_budget_per_30_days=None)
    seen = {
        name: [found.code for found in without_costs(changed).warnings]
        for name, changed in {
            "money": structs.replace(report, warnings=told),
            "hours": structs.replace(report, warnings=told, budget=of_hours),
            "none": structs.replace(report, warnings=told, budget=None),
        }.items()
    }
    assert seen == {
        "money": [],
        "hours": ["budget_incomplete"],
        "none": ["budget_incomplete"],
    }
