"""The FOCUS 1.2 file, against rules of the public specification by their ids.

Ids are those of the conformance rules in the specification's repository
(FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec, specification/conformance/conformance_rules).
"""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from msgspec import structs

from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.focus import loss_by_cause, loss_parts, report_focus
from service.reports.loss_report import LossReport, PricedDays
from service.reports.money import CostStatus, money
from service.reports.pricing import exact_hours
from service.reports.withheld_report import without_costs
from tests.reports import loss_reports
from tests.reports.loss_report_parts import EARLY_RATE, LATE_RATE, START_ON

Row = dict[str, str]
MANDATORY = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
]
NEVER_NULL = [name for name in MANDATORY if name not in {"BillingAccountName", "ChargeClass"}]
NUMERIC = [
    "BilledCost",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "ListCost",
    "ListUnitPrice",
    "PricingQuantity",
    "x_LossCost",
    "x_LossGpuHours",
]
TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")


def rows_of(report: LossReport) -> list[Row]:
    text = report_focus(report).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def at(row: Row, name: str) -> datetime:
    return datetime.strptime(row[name], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def product(row: Row, price: str) -> Fraction:
    return Fraction(row[price]) * Fraction(row["PricingQuantity"])


def partly_priced() -> LossReport:
    """Half of the window has no rate."""
    report = loss_reports.realistic()
    first = report.items[0]
    partly = structs.replace(
        first,
        cost_of_loss=None,
        cost_status=CostStatus.PARTLY_PRICED,
        price_days=[
            first.price_days[0],
            PricedDays(first_on=date(2026, 12, 18), days=13, rate_id=None, price_per_gpu_hour=None),
        ],
    )
    return structs.replace(report, items=[partly])


RULES: list[tuple[str, Callable[[Row], bool]]] = [
    (
        "BilledCost-C-002-M ListCost-C-003-M ChargePeriodStart-C-003-M and alike: MUST NOT be null",
        lambda row: all(row[name] for name in NEVER_NULL),
    ),
    (
        "NumericFormat-A-003-M A-008-M A-009-M A-010-M A-011-M: plain decimal values",
        lambda row: all(
            PLAIN_NUMBER.fullmatch(row[name]) is not None for name in NUMERIC if row[name]
        ),
    ),
    (
        "DateTimeFormat-A-001-M A-002-M A-003-M: UTC, YYYY-MM-DDTHH:mm:ssZ",
        lambda row: all(MOMENT.fullmatch(row[name]) is not None for name in TIMES),
    ),
    (
        "ChargePeriodStart-C-004-M, ChargePeriodEnd: one day, inclusive start, exclusive end",
        lambda row: (
            at(row, "ChargePeriodEnd") - at(row, "ChargePeriodStart") == timedelta(days=1)
            and at(row, "ChargePeriodStart").hour == 0
        ),
    ),
    (
        "BillingPeriodStart, BillingPeriodEnd: the charge lies in the half-open period, a month",
        lambda row: (
            at(row, "BillingPeriodStart") <= at(row, "ChargePeriodStart")
            and at(row, "ChargePeriodEnd") <= at(row, "BillingPeriodEnd")
            and at(row, "BillingPeriodStart").day == at(row, "BillingPeriodEnd").day == 1
        ),
    ),
    (
        "CurrencyFormat-A-001-M: three letters of ISO 4217",
        lambda row: re.fullmatch(r"[A-Z]{3}", row["BillingCurrency"]) is not None,
    ),
    (
        "BilledCost-C-005-M and design page API: a loss is no bill",
        lambda row: row["BilledCost"] == row["EffectiveCost"] == "0",
    ),
    (
        "ListCost-C-009-C, ListUnitPrice-C-010-M: ListUnitPrice x PricingQuantity = ListCost",
        lambda row: (
            not row["ListUnitPrice"] or product(row, "ListUnitPrice") == Fraction(row["ListCost"])
        ),
    ),
    (
        "PricingQuantity-C-009-C: ContractedUnitPrice x PricingQuantity = ContractedCost",
        lambda row: (
            not row["ContractedUnitPrice"]
            or product(row, "ContractedUnitPrice") == Fraction(row["ContractedCost"])
        ),
    ),
    (
        "ListCost-C-008-C: without a ListUnitPrice, ListCost is BilledCost",
        lambda row: bool(row["ListUnitPrice"]) or row["ListCost"] == row["BilledCost"],
    ),
    (
        "ListUnitPrice-C-008-C: not negative",
        lambda row: not row["ListUnitPrice"] or Decimal(row["ListUnitPrice"]) >= 0,
    ),
    (
        "PricingQuantity-C-005-C: not null for usage",
        lambda row: row["ChargeCategory"] == "Usage" and bool(row["PricingQuantity"]),
    ),
    ("ChargeClass: null unless a correction", lambda row: not row["ChargeClass"]),
    ("ChargeFrequency: allowed values", lambda row: row["ChargeFrequency"] == "Usage-Based"),
    (
        "PricingCategory-C-004-C C-007-M: of usage never null, and an allowed value",
        lambda row: row["PricingCategory"] in {"Standard", "Dynamic", "Committed", "Other"},
    ),
    (
        "SkuPriceId-C-005-C SkuId: of usage never null; C-011-O: the price may be that of the SKU",
        lambda row: bool(row["SkuId"]) and row["SkuPriceId"] == row["SkuId"],
    ),
    (
        "ListUnitPrice-C-007-C ContractedUnitPrice: of usage not null, unless nobody knows a price",
        lambda row: (
            bool(row["ListUnitPrice"] and row["ContractedUnitPrice"])
            or row["x_CostStatus"] in {"withheld", "no_rate", "partly_priced"}
        ),
    ),
    (
        "BillingCurrency-C-006-M: a national currency, unless nothing has a price",
        lambda row: row["BillingCurrency"] != "XXX" or row["x_CostStatus"] == "no_rate",
    ),
    (
        "ServiceName, ResourceId: StringHandling-A-007-M: not only spaces",
        lambda row: all(row[name].strip() for name in NEVER_NULL),
    ),
    (
        "UnitFormat: <singular>-<plural time unit>",
        lambda row: row["PricingUnit"] == "GPU-Hours",
    ),
    (
        "ServiceCategory, ServiceSubcategory: allowed values",
        lambda row: (
            (row["ServiceCategory"], row["ServiceSubcategory"])
            == ("AI and Machine Learning", "Machine Learning")
        ),
    ),
    (
        "NullHandling: null is empty, neither a word nor a placeholder",
        lambda row: not {"null", "NULL", "None", "N/A", "nan", "NaN"} & set(row.values()),
    ),
    (
        "KeyValueFormat: Tags are a JSON object of texts",
        lambda row: (
            not row["Tags"]
            or all(isinstance(text, str) for text in json.loads(row["Tags"]).values())
        ),
    ),
    (
        "Tags-C-012-M: keys that the provider defines have its prefix",
        lambda row: all(name.startswith("trainard/") for name in json.loads(row["Tags"] or "{}")),
    ),
    (
        "design page API: a forecast says so, and which version of the specification it follows",
        lambda row: (row["x_IsForecast"], row["x_FocusVersion"]) == ("true", "1.2"),
    ),
    (
        "only losses: a cause of the model that is not the useful part",
        lambda row: (
            f"gpu_hours_{row['x_LossCause']}" in ATTRIBUTION_COLUMNS
            and row["x_LossCause"] != "useful"
        ),
    ),
]


@pytest.fixture(scope="module")
def files() -> dict[str, list[Row]]:
    extreme = loss_reports.extreme()
    return {
        "realistic": rows_of(loss_reports.realistic()),
        "withheld": rows_of(without_costs(loss_reports.realistic())),
        "without rate": rows_of(loss_reports.without_rate()),
        "partly priced": rows_of(partly_priced()),
        "first night": rows_of(loss_reports.without_baseline()),
        "extreme": rows_of(structs.replace(extreme, items=extreme.items[:4])),
    }


@pytest.mark.parametrize(("rule", "holds"), RULES, ids=[rule for rule, _ in RULES])
def test_every_row_keeps_the_rule(
    files: dict[str, list[Row]], rule: str, holds: Callable[[Row], bool]
) -> None:
    broken = [(name, row) for name, rows in files.items() for row in rows if not holds(row)]
    assert not broken[:1], rule


def test_columns_are_named_and_ordered_by_column_handling() -> None:
    header = report_focus(loss_reports.realistic()).decode().partition("\r\n")[0].split(",")
    of_focus = [name for name in header if not name.startswith("x_")]
    ours = [name for name in header if name.startswith("x_")]
    assert set(MANDATORY) <= set(of_focus)
    assert len(MANDATORY) == 21
    # ColumnHandling-A-001-M, A-003-M, A-005-O, A-009-M, A-012-O, A-013-O
    assert header == [*sorted(of_focus), *sorted(ours)]
    assert all(re.fullmatch(r"(x_)?([A-Z][a-z]+)+", name) for name in header)
    assert max(map(len, header)) <= 50


def test_days_and_causes_add_up_to_each_item(files: dict[str, list[Row]]) -> None:
    hours: dict[str, Decimal] = defaultdict(Decimal)
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for row in files["realistic"]:
        hours[row["ResourceId"]] += Decimal(row["x_LossGpuHours"])
        costs[row["ResourceId"]] += Decimal(row["x_LossCost"])
        assert row["x_LossGpuHours"] == row["PricingQuantity"]
    known = [item for item in loss_reports.realistic().items if item.missing is None]
    assert set(hours) == {item.custom_id for item in known}
    for item in known:
        assert item.gpu_hours_lost is not None
        assert item.cost_of_loss is not None
        assert hours[item.custom_id] == round(Decimal(repr(item.gpu_hours_lost)), 6)
        assert costs[item.custom_id] == Decimal(item.cost_of_loss.amount)


def test_each_day_has_the_rate_of_that_day(files: dict[str, list[Row]]) -> None:
    rows = [row for row in files["realistic"] if row["ResourceId"] == "prod-h100"]
    found = {row["ChargePeriodStart"][:10]: (row["x_RateId"], row["ListUnitPrice"]) for row in rows}
    days = [START_ON + timedelta(days=day) for day in range(30)]
    assert list(found) == [day.isoformat() for day in days]
    assert found["2026-12-17"] == (EARLY_RATE, "2.1")
    assert found["2026-12-18"] == (LATE_RATE, "2.25")


def test_a_sku_price_stays_the_same_when_its_rate_changes(files: dict[str, list[Row]]) -> None:
    """SkuPriceId-C-008-M, C-009-M, C-010-M: one SKU each, over time and cost centers."""
    rows = [row for row in files["realistic"] if row["ResourceId"] == "prod-h100"]
    assert {row["x_RateId"] for row in rows} == {EARLY_RATE, LATE_RATE}
    assert {(row["SkuPriceId"], row["SkuId"]) for row in rows} == {("H100", "H100")}
    hidden = [row["SkuPriceId"] for row in files["withheld"]]
    assert hidden == [row["SkuPriceId"] for row in files["realistic"]]
    assert json.loads(rows[0]["Tags"]) == {"trainard/profile": "prod-h100@3"}


def test_a_long_window_is_told_by_month_and_price() -> None:
    """A quarter from 20 November on, with a new price on 18 December; the same sums as by day."""
    report = loss_reports.realistic()
    first = report.items[0]
    early, late = first.price_days
    lost = exact_hours(first.gpu_hours_lost or 0)
    mean = (28 * Fraction("2.1") + 62 * Fraction("2.25")) / 90
    item = structs.replace(
        first,
        start_on=date(2026, 11, 20),
        period_days=90,
        price_days=[
            structs.replace(early, first_on=date(2026, 11, 20), days=28),
            structs.replace(late, first_on=date(2026, 12, 18), days=62),
        ],
        cost_of_loss=money(lost * mean, "EUR"),
    )
    rows = rows_of(structs.replace(report, items=[item]))
    assert not [
        rule for rule, holds in RULES if "one day" not in rule and not all(map(holds, rows))
    ]
    periods = list(
        dict.fromkeys(
            (row["ChargePeriodStart"][:10], row["ChargePeriodEnd"][:10], row["x_RateId"])
            for row in rows
        )
    )
    assert periods == [
        ("2026-11-20", "2026-12-01", EARLY_RATE),
        ("2026-12-01", "2026-12-18", EARLY_RATE),
        ("2026-12-18", "2027-01-01", LATE_RATE),
        ("2027-01-01", "2027-02-01", LATE_RATE),
        ("2027-02-01", "2027-02-18", LATE_RATE),
    ]
    days = [11, 17, 14, 31, 17]
    hours = [
        sum(Decimal(row["x_LossGpuHours"]) for row in rows if row["ChargePeriodStart"][:10] == day)
        for day, _, _ in periods
    ]
    for found, length in zip(hours, days, strict=True):
        assert float(found) == pytest.approx(float(lost) * length / 90, abs=3e-6)
    assert sum(hours) == round(Decimal(repr(first.gpu_hours_lost)), 6)
    assert item.cost_of_loss is not None
    assert sum(Decimal(row["x_LossCost"]) for row in rows) == Decimal(item.cost_of_loss.amount)
    short = structs.replace(
        item, period_days=31, price_days=[structs.replace(late, days=31)], cost_of_loss=None
    )
    assert {part.days for part in loss_parts(short)} == {1}


def test_what_the_ideal_step_counts_too_is_no_loss() -> None:
    # One clear case by hand: 1 024 GPUs, ideal 30 + 300 + 80 ms, 0.309 of it lost
    item = loss_reports.realistic().items[0]
    causes = loss_by_cause(item)
    assert set(causes) == {"gpu_hours_slow_groups", "gpu_hours_transient", "gpu_hours_failures"}
    step = 410 * 1.309
    assert float(causes["gpu_hours_slow_groups"]) == pytest.approx(
        737_280 * 410 * 0.22 / step, rel=1e-12
    )
    assert sum(causes.values()) == exact_hours(item.gpu_hours_lost or 0)


def test_hidden_communication_is_a_gain() -> None:
    item = loss_reports.realistic().items[0]
    hidden = structs.replace(
        item,
        gpu_hours_available=1000.0,
        gpu_hours_lost=-50.0,
        causes={"gpu_hours_useful": 900.0, "gpu_hours_load": 40.0, "gpu_hours_communication": 60.0},
    )
    assert loss_by_cause(hidden) == {"gpu_hours_communication": Fraction(-50)}
    nothing = structs.replace(hidden, gpu_hours_lost=0.0, gpu_hours_available=0.0, causes={})
    assert loss_parts(nothing) == []


def test_money_is_withheld_and_gpu_hours_are_not(files: dict[str, list[Row]]) -> None:
    shown, hidden = files["realistic"], files["withheld"]
    # The reader sees the days of the window, though not which rate prices them
    assert [row["x_LossGpuHours"] for row in shown] == [row["x_LossGpuHours"] for row in hidden]
    for name in ("x_LossCost", "ListUnitPrice", "ContractedUnitPrice", "x_RateId"):
        assert {row[name] for row in hidden} == {""}
    assert {row["x_CostStatus"] for row in hidden} == {"withheld"}
    assert {row["ListCost"] for row in hidden} == {"0"}


def test_without_a_currency_there_is_none(files: dict[str, list[Row]]) -> None:
    assert {row["BillingCurrency"] for row in files["without rate"]} == {"XXX"}
    assert {row["x_LossCost"] for row in files["without rate"]} == {""}
    assert {row["x_BaselineBatchId"] for row in files["first night"]} == {""}


def test_days_without_a_rate_have_neither_price_nor_cost() -> None:
    rows = rows_of(partly_priced())
    assert {row["x_LossCost"] for row in rows} == {""}
    late = [row for row in rows if row["ChargePeriodStart"] >= "2026-12-18"]
    assert len(late) == 13 * 3
    assert {(row["ListUnitPrice"], row["ListCost"]) for row in late} == {("", "0")}
    # A part whose days have no rate carries none of a cost that is known
    (partly,) = partly_priced().items
    cost_of_loss = loss_reports.realistic().items[0].cost_of_loss
    known = structs.replace(partly, cost_of_loss=cost_of_loss)
    with pytest.raises(ValueError, match="is not the total"):
        loss_parts(known)


def test_hostile_names_are_no_formula(files: dict[str, list[Row]]) -> None:
    assert {row["ResourceName"][:5] for row in files["extreme"]} == {"'=cmd", ""}
    assert {row["x_CostCenter"] for row in files["extreme"]} == {""}


def test_a_report_without_numbers_is_a_header() -> None:
    assert report_focus(loss_reports.all_failed()).count(b"\r\n") == 1
