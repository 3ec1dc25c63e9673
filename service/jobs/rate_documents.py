"""What a caller sends for a dated GPU-hour rate and what it gets back."""

from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from service.jobs.labels import CostCenter, GpuType, Remark
from service.reports.money import Money

Price = Annotated[
    Money,
    Meta(
        description="Price of one GPU for one hour: a decimal text above 0, never a float, at "
        "most 12 digits before and after the point; kept as given.",
        examples=[{"amount": "1.00", "currency": "EUR"}],
    ),
]
FirstDay = Annotated[
    date, Meta(description="First day on which the rate is valid.", examples=["2026-10-01"])
]
EndDay = Annotated[
    date, Meta(description="First day on which it is valid no longer.", examples=["2027-10-01"])
]
Source = Annotated[Remark, Meta(description="Who says so: a memo, a contract, an invoice.")]
Reason = Annotated[
    Remark, Meta(description="Why the entry was made.", examples=["typing error in the price"])
]


class RateIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new rate of a key (gpu_type, currency, cost_center), valid from a day on."""

    gpu_type: GpuType
    cost_center: CostCenter | None = None
    price_per_gpu_hour: Price
    valid_from: FirstDay
    valid_until: EndDay | None = None
    source: Source
    reason: Reason | None = None


class CorrectionIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was wrong in a rate; what is not given stays, `valid_until: null` means no end."""

    price_per_gpu_hour: Price | UnsetType = UNSET
    valid_from: FirstDay | UnsetType = UNSET
    valid_until: EndDay | UnsetType | None = UNSET
    source: Source | UnsetType = UNSET
    reason: Reason


class RateOut(Struct, frozen=True, kw_only=True):
    """A rate as it was recorded; a corrected one names the row that replaced it."""

    id: UUID
    gpu_type: str
    cost_center: str | None
    price_per_gpu_hour: Money
    valid_from: date
    valid_until: date | None
    source: str
    reason: str | None
    recorded_at: datetime
    recorded_by: str
    superseded_at: datetime | None
    superseded_by: UUID | None
    approved_by: Annotated[
        str | None, Meta(description="The second person; null: not approved so far.")
    ]
    approved_at: datetime | None
    version: int


class RatePage(Struct, frozen=True, kw_only=True):
    """A page of rates, by key and first day."""

    items: list[RateOut]
    next_page_token: str | None


LossCode = Literal["less_specific", "superseded", "ended", "not_started", "awaits_approval"]


class LostCandidate(Struct, frozen=True, kw_only=True):
    """A rate of the same GPU type and currency that does not price the day, and why not."""

    rate: RateOut
    code: LossCode
    detail: str


class ResolutionOut(Struct, frozen=True, kw_only=True):
    """The rate that prices a day, or null, and why."""

    gpu_type: str
    currency: str
    cost_center: str | None
    on: date
    as_of: datetime | None
    rate: RateOut | None
    code: Literal["exact_cost_center", "no_cost_center", "no_rate"]
    detail: str
    lost: list[LostCandidate]


class ImportedRate(Struct, frozen=True, kw_only=True):
    """One line of an import; `id` is null when nothing was to be stored."""

    line: int
    id: UUID | None
    gpu_type: str
    cost_center: str | None
    price_per_gpu_hour: Money
    valid_from: date
    valid_until: date | None


class ImportOut(Struct, frozen=True, kw_only=True):
    """An import that was stored as a whole, or that would be (`validate_only`)."""

    validate_only: bool
    num_rates: int
    items: list[ImportedRate]
