"""Items and sides of reports for tests, made of few numbers."""

from datetime import date
from decimal import Decimal
from typing import Any

from service.reports.loss_report import PricedDays
from service.reports.money import Money
from service.reports.pricing import PricedWindow, RateLine
from service.reports.report_sides import ReportedItem, ReportedPoint, ReportSide

START = date(2026, 12, 1)


def window(*prices: tuple[str, int], unpriced: int = 0) -> PricedWindow:
    """Days priced with each amount, and days without a rate."""
    return PricedWindow(
        lines=tuple(
            RateLine(rate_id=f"rate-{amount}", price=Decimal(amount), days=days)
            for amount, days in prices
        ),
        unpriced_days=unpriced,
    )


def point(**values: float | None) -> ReportedPoint:
    """A point of 1 000 GPU-hours, of which 100 are lost to transient variability."""
    shown: dict[str, float | None] = {
        "num_gpus": 8.0,
        "step_mean_ms": 100.0,
        "ideal_step_ms": 90.0,
        "efficiency_fraction": 0.9,
        "gpu_hours_available": 1000.0,
        "gpu_hours_lost": 100.0,
        "gpu_hours_not_useful": 300.0,
        "gpu_hours_lost_p10": 90.0,
        "gpu_hours_lost_p90": 110.0,
        "gpu_hours_lost_se": 0.0,
        "gpu_hours_useful": 700.0,
        "gpu_hours_transient": 100.0,
        "gpu_hours_communication": 200.0,
    }
    return ReportedPoint(point=3, values=shown | values, method="quadrature", is_extrapolated=False)


def item(custom_id: str = "a", /, **changes: Any) -> ReportedItem:
    """An item whose custom id is its name, priced with 2.00 a day, over 30 days."""
    days = changes.get("period_days", 30)
    priced = changes.pop("window", window(("2.00", days)))
    fields: dict[str, Any] = {
        "custom_id": custom_id,
        "name": custom_id,
        "profile": "prod",
        "profile_revision": 1,
        "start_on": START,
        "period_days": days,
        "seed": 0,
        "gpu_type": "H100",
        "cost_center": None,
        "missing": None,
        "found": point(),
        "window": priced,
        "price_days": price_days(priced),
    }
    return ReportedItem(**fields | changes)


def missing(custom_id: str, why: str, /, **changes: Any) -> ReportedItem:
    """An item without numbers."""
    return item(custom_id, found=None, missing=why, **changes)


def price_days(priced: PricedWindow | None) -> list[PricedDays]:
    if priced is None:
        return []
    days = [
        PricedDays(
            first_on=START,
            days=line.days,
            rate_id=line.rate_id,
            price_per_gpu_hour=Money(amount=str(line.price), currency="EUR"),
        )
        for line in priced.lines
    ]
    if priced.unpriced_days:
        days.append(
            PricedDays(
                first_on=START, days=priced.unpriced_days, rate_id=None, price_per_gpu_hour=None
            )
        )
    return days


def side(*items: ReportedItem, currency: str | None = "EUR", model: str = "3.0") -> ReportSide:
    return ReportSide(items=items, currency=currency, model_version=model)
