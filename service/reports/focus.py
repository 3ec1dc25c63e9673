"""FOCUS 1.2 CSV of a loss report: one row per item, day and cause of loss.

A long window has a row for each of its months instead, and one more where the price changes: ten
years of a thousand items by day would be gigabytes that say nothing more.

A loss is a view of money that is billed already: `BilledCost` and `EffectiveCost` are 0, so that
sums over bills stay what they are; what the loss costs is `x_LossCost`. The quantities of an item
add up to its GPU-hours lost, its `x_LossCost` to its cost shown. All rows are forecasts.

Where no price is known `ListCost` is `BilledCost`, as the specification asks of a column that may
not be null; the unit prices and `x_LossCost` are null, and `x_CostStatus` says why. There the file
leaves the specification, which has no value for a price that nobody knows: 0 would be a price.
Likewise without a currency `BillingCurrency` is XXX.

A SKU is a type of GPU. Its dated rates and cost centers are not in `SkuPriceId`, which has to stay
the same over time and across accounts: the rate of a row is `x_RateId`.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction

import msgspec
from msgspec import Struct

from service.reports.export_fields import Field, FieldKind
from service.reports.export_text import write_csv
from service.reports.loss_report import LossReport, PricedDays, ReportItem
from service.reports.money import Money, apportion
from service.reports.pricing import exact_hours
from service.reports.whole_costs import apportioned

FOCUS_VERSION = "1.2"
# A millionth of a GPU-hour is 4 ms of one GPU; 1e7 GPUs for a day still fit the 16 digits that the
# numeric format of the specification expects readers to keep.
QUANTITY_DIGITS = 6
MOST_DAYS = 31
"""Days of the longest window that is told by day."""
# ISO 4217: "transactions where no currency is involved"
NO_CURRENCY = "XXX"
PROVIDER = "Trainard"
# Tags that nobody but the provider has defined carry its prefix
TAG_PREFIX = "trainard/"
_DROPPED = 1e-9
_PRECISION = 80
# What the ideal step counts too is no loss: it is taken off these, the last one takes the rest.
_IN_IDEAL = ("gpu_hours_load", "gpu_hours_communication")

# FOCUS columns first, in the order of the alphabet; then ours.
_FOCUS_COLUMNS: tuple[tuple[str, FieldKind], ...] = (
    ("BilledCost", "decimal"),
    ("BillingAccountId", "text"),
    ("BillingAccountName", "text"),
    ("BillingCurrency", "text"),
    ("BillingPeriodEnd", "text"),
    ("BillingPeriodStart", "text"),
    ("ChargeCategory", "text"),
    ("ChargeClass", "text"),
    ("ChargeDescription", "text"),
    ("ChargeFrequency", "text"),
    ("ChargePeriodEnd", "text"),
    ("ChargePeriodStart", "text"),
    ("ContractedCost", "decimal"),
    ("ContractedUnitPrice", "decimal"),
    ("EffectiveCost", "decimal"),
    ("InvoiceIssuerName", "text"),
    ("ListCost", "decimal"),
    ("ListUnitPrice", "decimal"),
    ("PricingCategory", "text"),
    ("PricingQuantity", "decimal"),
    ("PricingUnit", "text"),
    ("ProviderName", "text"),
    ("PublisherName", "text"),
    ("ResourceId", "text"),
    ("ResourceName", "text"),
    ("ResourceType", "text"),
    ("ServiceCategory", "text"),
    ("ServiceName", "text"),
    ("ServiceSubcategory", "text"),
    ("SkuId", "text"),
    ("SkuPriceId", "text"),
    ("Tags", "text"),
)
_OUR_COLUMNS: tuple[tuple[str, FieldKind], ...] = (
    ("x_BaselineBatchId", "text"),
    ("x_BatchId", "text"),
    ("x_CostCenter", "text"),
    ("x_CostStatus", "text"),
    ("x_FocusVersion", "text"),
    ("x_GpuType", "text"),
    ("x_InputDigest", "text"),
    ("x_IsForecast", "text"),
    ("x_LossCause", "text"),
    ("x_LossCost", "decimal"),
    ("x_LossGpuHours", "decimal"),
    ("x_ModelVersion", "text"),
    ("x_RateId", "text"),
    ("x_ReportId", "text"),
    ("x_ResultId", "text"),
    ("x_ScenarioName", "text"),
)
FIELDS = tuple(Field(name=name, kind=kind) for name, kind in (*_FOCUS_COLUMNS, *_OUR_COLUMNS))

Value = str | Decimal | None


class LossPart(Struct, frozen=True):
    """What one cause took from one item on some days from one on; its GPU-hours in millionths."""

    day: date
    days: int
    cause: str
    hours: Decimal
    price: PricedDays
    cost: Decimal | None


def report_focus(report: LossReport) -> bytes:
    """The whole file; items without numbers and causes without GPU-hours have no rows."""
    of_report = _of_report(report)
    known = [item for item in report.items if item.missing is None]
    return b"".join(write_csv(FIELDS, (_chunk(item, of_report) for item in known)))


def loss_by_cause(item: ReportItem) -> dict[str, Fraction]:
    """GPU-hours by cause that add up exactly to those lost.

    What the ideal step counts too is no loss: nominal loading and communication are taken off
    their columns; where overlap hides more than nothing, communication is a gain, below 0.
    """
    causes = {name: hours for name, hours in item.causes.items() if name != "gpu_hours_useful"}
    lost, available = item.gpu_hours_lost or 0.0, item.gpu_hours_available or 0.0
    within_ideal = math.fsum([*causes.values(), -lost])
    load, rest = _IN_IDEAL
    of_load = min(max(within_ideal, 0.0), causes.get(load, 0.0))
    causes[load] = causes.get(load, 0.0) - of_load
    causes[rest] = causes.get(rest, 0.0) - (within_ideal - of_load)
    # What is left by floating point alone is no cause; the largest one makes up for it.
    least = _DROPPED * available
    kept = {name: exact_hours(hours) for name, hours in causes.items() if abs(hours) > least}
    if kept:
        largest = max(kept, key=lambda name: abs(kept[name]))
        kept[largest] += exact_hours(lost) - sum(kept.values())
    return kept


def loss_parts(item: ReportItem) -> list[LossPart]:
    """Every period and cause: their GPU-hours add up to the item's, their costs to its cost."""
    causes, periods = loss_by_cause(item), list(_periods(item))
    places = [(cause, *period) for cause in causes for period in periods]
    num_days = sum(days for _, days, _ in periods)
    shares = [causes[cause] * Fraction(days, num_days) for cause, _, days, _ in places]
    quantities = _quantities(shares)
    costs = _costs(shares, [price for *_, price in places], item.cost_of_loss)
    parts = [
        LossPart(day, days, cause, hours, price, cost)
        for (cause, day, days, price), hours, cost in zip(places, quantities, costs, strict=True)
    ]
    return sorted(parts, key=lambda part: part.day)


def _quantities(shares: list[Fraction]) -> list[Decimal]:
    """The shares in millionths, each rounded up or down so that they add up to the total."""
    scale = 10**QUANTITY_DIGITS
    denominator = math.lcm(*(share.denominator for share in shares))
    numerators = [int(share * denominator) * scale for share in shares]
    units = apportioned(numerators, denominator, round(Fraction(sum(numerators), denominator)))
    return [Decimal(f"{unit}E-{QUANTITY_DIGITS}") for unit in units]


def _costs(
    shares: list[Fraction], prices: list[PricedDays], shown: Money | None
) -> list[Decimal | None]:
    """What the parts cost, rounded so that they add up to the item's cost shown."""
    if shown is None or not shares:
        return [None] * len(shares)
    exact = [
        share
        * (0 if price.price_per_gpu_hour is None else Fraction(price.price_per_gpu_hour.amount))
        for share, price in zip(shares, prices, strict=True)
    ]
    return [*apportion(exact, shown.currency, shown_total=Decimal(shown.amount))]


def _periods(item: ReportItem) -> Iterator[tuple[date, int, PricedDays]]:
    """The periods of the window, first day and number of days, with what prices each.

    Where that is withheld, with nothing.
    """
    unpriced = PricedDays(
        first_on=item.start_on, days=item.period_days, rate_id=None, price_per_gpu_hour=None
    )
    for part in item.price_days or [unpriced]:
        day, left = part.first_on, part.days
        while left:
            days = 1 if item.period_days <= MOST_DAYS else min(left, _left_of_month(day))
            yield day, days, part
            day, left = day + timedelta(days=days), left - days


def _left_of_month(day: date) -> int:
    return (_next_month(day) - day).days


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def _chunk(item: ReportItem, of_report: Mapping[str, Value]) -> dict[str, list[Value]]:
    """The rows of one item, column by column."""
    parts = loss_parts(item)
    months = [part.day.replace(day=1) for part in parts]
    after_months = [_next_month(month) for month in months]
    causes = [part.cause.removeprefix("gpu_hours_") for part in parts]
    prices = [_unit_price(part.price) for part in parts]
    shown_prices = [None if price is None else _plain(price) for price in prices]
    costs = [
        Decimal(0) if price is None else _product(part.hours, price)
        for part, price in zip(parts, prices, strict=True)
    ]
    hours = [_plain(part.hours) for part in parts]
    same = {**of_report, **_of_item(item)}
    return {
        **{name: [value] * len(parts) for name, value in same.items()},
        "ChargeDescription": [f"GPU-hours lost: {cause}" for cause in causes],
        "ChargePeriodStart": [_midnight(part.day) for part in parts],
        "ChargePeriodEnd": [_midnight(part.day + timedelta(days=part.days)) for part in parts],
        "BillingPeriodStart": [*map(_midnight, months)],
        "BillingPeriodEnd": [*map(_midnight, after_months)],
        "ListUnitPrice": [*shown_prices],
        "ContractedUnitPrice": [*shown_prices],
        "ListCost": [*costs],
        "ContractedCost": [*costs],
        "PricingQuantity": [*hours],
        "x_LossCause": [*causes],
        "x_LossCost": [part.cost for part in parts],
        "x_LossGpuHours": [*hours],
        "x_RateId": [part.price.rate_id for part in parts],
    }


def _of_report(report: LossReport) -> dict[str, Value]:
    """What all rows share."""
    return {
        "BilledCost": Decimal(0),
        "EffectiveCost": Decimal(0),
        "BillingAccountId": "trainard",
        "BillingAccountName": None,
        "BillingCurrency": report.batch.currency or NO_CURRENCY,
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeFrequency": "Usage-Based",
        "InvoiceIssuerName": PROVIDER,
        "PricingCategory": "Standard",
        "PricingUnit": "GPU-Hours",
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Machine Learning",
        "ServiceName": "GPU training clusters",
        "ResourceType": "GPU cluster",
        "x_BaselineBatchId": str(report.baseline.batch_id) if report.baseline else None,
        "x_BatchId": str(report.batch.batch_id),
        "x_FocusVersion": FOCUS_VERSION,
        "x_InputDigest": report.batch.input_digest,
        "x_IsForecast": "true",
        "x_ModelVersion": report.batch.model_version,
        "x_ReportId": str(report.report_id),
    }


def _of_item(item: ReportItem) -> dict[str, Value]:
    revision = None if item.profile is None else f"{item.profile}@{item.profile_revision}"
    tags = {"profile": revision, "cost_center": item.cost_center}
    known = {f"{TAG_PREFIX}{name}": text for name, text in tags.items() if text}
    sku = item.gpu_type or "GPU"
    return {
        "ResourceId": item.custom_id,
        "ResourceName": item.name or None,
        "SkuId": sku,
        "SkuPriceId": sku,
        "Tags": msgspec.json.encode(known).decode() if known else None,
        "x_CostCenter": item.cost_center,
        "x_CostStatus": item.cost_status.value,
        "x_GpuType": item.gpu_type,
        "x_ResultId": item.result_id,
        "x_ScenarioName": item.name or None,
    }


def _unit_price(price: PricedDays) -> Decimal | None:
    return None if price.price_per_gpu_hour is None else Decimal(price.price_per_gpu_hour.amount)


def _product(hours: Decimal, price: Decimal) -> Decimal:
    """Exact: up to 16 and 24 digits are more than the 28 of the usual context."""
    with localcontext() as context:
        context.prec = _PRECISION
        return _plain(hours * price)


def _plain(number: Decimal) -> Decimal:
    """Without zeros that say nothing."""
    text = format(number, "f")
    return Decimal(text.rstrip("0").rstrip(".")) if "." in text else number


def _midnight(day: date) -> str:
    return f"{day.isoformat()}T00:00:00Z"
