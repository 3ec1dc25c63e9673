"""The document of a loss report: what every format of it is made from, in any language.

Sentences are codes with parameters, so that they can be said in another language; `detail` says
them in English. Hours are of 30 days wherever a name says so, else of each item's own window.
Totals are sums over headline points (design page "Decisions", 9).
"""

from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.reports.changes import Change
from service.reports.cost_changes import CostChange
from service.reports.money import CostStatus, Money

SCHEMA = "trainard-loss-report/1"

CauseKind = Literal[
    "profile_revision", "model_version", "calibration", "template", "window", "joint", "sampling"
]
MoverKind = Literal["changed", "appeared", "gone", "failed", "returned"]
BudgetStatus = Literal["within", "over", "unknown", "withheld"]
ReasonUnknown = Literal["no_rate", "other_currency", "items_without_numbers"]


class ReportNotice(Struct, frozen=True, kw_only=True):
    """Something that the reader must know: its code, what it is about, and an English sentence."""

    code: str
    detail: str
    params: dict[str, str | int | float | None] = {}
    pointer: str = ""


class ReportRun(Struct, frozen=True, kw_only=True):
    """The run of a schedule that is reported on."""

    schedule_id: UUID
    schedule: Annotated[str, Meta(description="Slug of the schedule.")]
    run_id: UUID
    kind: str
    attempt: int
    scheduled_for: datetime
    local_time: str
    zone: str
    tzdata_version: str


class ReportBatch(Struct, frozen=True, kw_only=True):
    """One side of the report."""

    batch_id: UUID
    name: str
    state: str
    start_on: date
    currency: str | None
    pricing: Annotated[int, Meta(description="Number of the pricing shown; 0: withheld.")]
    rates_as_of: datetime | None
    model_version: str
    input_digest: str
    created_at: datetime
    ended_at: datetime | None
    items_total: int
    points_total: int
    points_failed: int
    items_without_headline: int
    run_id: UUID | None
    scheduled_for: datetime | None
    reused_from: UUID | None
    local_time: Annotated[
        str | None, Meta(description="Of the run's slot, in `zone`; null without a run.")
    ] = None
    zone: str | None = None


class RateChange(Struct, frozen=True, kw_only=True):
    """A rate that prices one side or both; the effects of all add up to the price effect.

    A rate and its correction move the money together: the effect of both is that of the correction.
    """

    rate_id: str
    gpu_type: str | None
    cost_center: str | None
    price_per_gpu_hour: Money
    past_days: int
    new_days: int
    effect: Money | None
    corrected_by: Annotated[
        str | None,
        Meta(description="Another of these rates that corrected it, and has its effect too."),
    ] = None


class PricedDays(Struct, frozen=True, kw_only=True):
    """Consecutive days of an item's window that one rate prices, or none does (both null)."""

    first_on: date
    days: int
    rate_id: str | None
    price_per_gpu_hour: Money | None


class VolumeCause(Struct, frozen=True, kw_only=True):
    """One reason why the GPU-hours moved; all of them sum to the difference.

    - `cause`: `profile_revision` (`detail` slug@a -> slug@b), `template` (what the schedule or
      batch says beside the profile), `model_version`, `calibration` (a revision that came from
      one), `window` (length of the window), `joint` (what could not be told apart), `sampling`
      (other draws: the seed or the number of draws is another, or no input and no model moved);
    - `path`: the input that moved, with both values as JSON; null where it is not a single input.
    """

    cause: CauseKind
    detail: str
    path: str | None
    past: str | None
    new: str | None
    gpu_hours_per_30_days: float


class Headline(Struct, frozen=True, kw_only=True):
    """All headline points together, on 30 days.

    The change is of the items that have numbers on both sides (`items_compared`); `gpu_hours_lost`
    and `cost_of_loss` are of all items of this batch, `past_gpu_hours_lost` of all of the baseline.
    """

    items: int
    items_compared: int
    gpu_hours_available_per_30_days: float
    gpu_hours_lost_per_30_days: float
    gpu_hours_lost_se_per_30_days: float | None
    loss_fraction: Annotated[float, Meta(description="Of the GPU-hours available.")]
    gpu_hours_not_useful_per_30_days: float
    cost_of_loss_per_30_days: Money | None
    cost_status: CostStatus
    gpu_hours_lost_change: Change | None
    cost_of_loss_change: CostChange | None
    volume: list[VolumeCause]
    rates: list[RateChange]
    priced_cost_per_30_days: Annotated[
        Money | None,
        Meta(
            description="What the days with a rate cost: the loss costs at least that. Null where "
            "no day has one, or where an item with unpriced days gains, and would cost less."
        ),
    ] = None
    items_unpriced: Annotated[
        int | None, Meta(description="Items with numbers of which days have no rate.")
    ] = None
    unpriced_days: Annotated[int | None, Meta(description="Days of theirs without a rate.")] = None
    past_gpu_hours_lost_per_30_days: Annotated[
        float | None, Meta(description="Of all items of the baseline; null without one.")
    ] = None
    items_appeared: Annotated[
        int, Meta(description="With numbers, that the baseline does not have.")
    ] = 0
    items_gone: Annotated[int, Meta(description="With numbers there, that are no more.")] = 0
    items_failed: Annotated[
        int, Meta(description="With numbers in the baseline, but none in this batch.")
    ] = 0
    items_returned: Annotated[
        int, Meta(description="With numbers in this batch, but none in the baseline.")
    ] = 0

    @property
    def is_compared_in_part(self) -> bool:
        """Whether items have numbers on one side only, so that the change does not say it all."""
        others = (self.items_appeared, self.items_gone, self.items_failed, self.items_returned)
        return any(others)


class WaterfallStep(Struct, frozen=True, kw_only=True):
    """A cause of decisions 2, summed over headline points, on 30 days."""

    column: Annotated[str, Meta(description="gpu_hours_useful, gpu_hours_transient, …")]
    gpu_hours_per_30_days: float
    past_gpu_hours_per_30_days: float | None
    cost_per_30_days: Money | None


class ReportItem(Struct, frozen=True, kw_only=True):
    """One item of the batch: its headline point, or why it has none."""

    custom_id: str
    name: str
    profile: str | None
    profile_revision: int | None
    result_id: str | None
    missing: Annotated[
        str | None, Meta(description="no_headline, failed, not_computed; null: it has numbers.")
    ]
    start_on: date
    period_days: int
    num_gpus: int | None
    step_mean_ms: float | None
    ideal_step_ms: float | None
    efficiency_fraction: float | None
    gpu_hours_available: float | None
    gpu_hours_lost: float | None
    gpu_hours_lost_p10: float | None
    gpu_hours_lost_p90: float | None
    gpu_hours_lost_se: float | None
    gpu_hours_lost_per_30_days: float | None
    method: str | None
    cost_of_loss: Annotated[
        Money | None,
        Meta(
            description="Of the item's own window; where that has 30 days, the cost of 30 days: "
            "those of all items add up to the headline's. Those of windows that are equally long "
            "add up to their sum rounded once."
        ),
    ]
    cost_of_loss_per_30_days: Money | None
    cost_status: Annotated[
        CostStatus,
        Meta(description="Of the days; an item without numbers has no cost: see `missing`."),
    ]
    unpriced_days: int | None
    change: Annotated[
        Change | None, Meta(description="Of the GPU-hours lost on 30 days, whatever the window.")
    ]
    cost_change: Annotated[CostChange | None, Meta(description="Likewise on 30 days.")]
    volume: list[VolumeCause]
    rates: list[RateChange]
    gpu_type: str | None
    cost_center: str | None
    price_days: Annotated[list[PricedDays], Meta(description="The whole window, first day first.")]
    causes: Annotated[
        dict[str, float],
        Meta(description="GPU-hours of the item's window by attribution column, without zeros."),
    ]


class Mover(Struct, frozen=True, kw_only=True):
    """An item whose loss moved most, or that has numbers on one side only.

    `appeared`, `gone`: the other side does not have the item; `failed`, `returned`: it has, but
    without numbers, now or before.
    """

    custom_id: str
    name: str
    profile: str | None
    kind: MoverKind
    past_gpu_hours_lost_per_30_days: float | None
    new_gpu_hours_lost_per_30_days: float | None
    difference_per_30_days: float
    relative: float | None
    cost_difference_per_30_days: Money | None
    main_cause: VolumeCause | None


class ProfileLoss(Struct, frozen=True, kw_only=True):
    """The items of one profile on both sides, on 30 days; all profiles add up to the headline."""

    profile: Annotated[str | None, Meta(description="Null: inline scenarios.")]
    items: int
    gpu_hours_lost_per_30_days: float
    past_gpu_hours_lost_per_30_days: float | None
    items_appeared: int
    items_gone: int
    items_failed: int
    items_returned: int


class ReportRemedy(Struct, frozen=True, kw_only=True):
    """What one remedy would give back to one item, over the item's window."""

    custom_id: str
    name: str
    kind: str
    setting: str | None
    gpu_hours_given_back: float
    gpu_hours_given_back_se: float
    gpu_hours_given_back_per_30_days: float
    cost_given_back_per_30_days: Money | None
    cost_status: CostStatus
    is_more_than_lost: Annotated[
        bool,
        Meta(
            description="Whether it gives back more than the item loses: it makes steps shorter "
            "than the ideal step, which the loss is measured against."
        ),
    ] = False


class RemediesLeftOut(Struct, frozen=True, kw_only=True):
    """An item of those that lose most, of which no remedies were ranked, with the reason."""

    custom_id: str
    name: str
    reason: Annotated[str, Meta(description="In English, as in the warning.")]


class BudgetOutcome(Struct, frozen=True, kw_only=True):
    """The budget and what it was held against, on 30 days.

    `over` where what is known is over it, even if more is not known: days without a rate would
    only add to `priced_cost_per_30_days`. `unknown`: it is not, and `reason_unknown` says why that
    is not enough (`items_without_numbers`: not all have some, or none has). `withheld`: it is a
    budget of money and the reader may not see any; then its numbers are null.
    """

    status: BudgetStatus
    gpu_hours_lost_per_30_days: float | None
    gpu_hours_budget_per_30_days: float | None
    cost_of_loss_per_30_days: Money | None
    cost_budget_per_30_days: Money | None
    priced_cost_per_30_days: Annotated[
        Money | None, Meta(description="What the loss costs at least; null where nobody can say.")
    ] = None
    items_unpriced: int | None = None
    unpriced_days: int | None = None
    reason_unknown: Annotated[
        ReasonUnknown | None, Meta(description="Why the status is `unknown`; else null.")
    ] = None


class Reproduce(Struct, frozen=True, kw_only=True):
    """How to get the same numbers again."""

    commands: list[str]
    model_version: str
    input_digest: str
    seeds: list[int]
    profiles: Annotated[list[str], Meta(description="slug@revision, as computed.")]
    rate_ids: list[str]
    rates_as_of: datetime | None
    trainard_version: str


class LossReport(Struct, frozen=True, kw_only=True):
    """One report. What it says never changes; another pricing is another report."""

    report_id: UUID
    schema: str
    name: str
    made_at: datetime
    run: ReportRun | None
    batch: ReportBatch
    baseline: ReportBatch | None
    baseline_missing: Annotated[
        str | None, Meta(description="Why it is compared with nothing: none_asked, no_earlier_run…")
    ]
    headline: Headline
    waterfall: list[WaterfallStep]
    items: list[ReportItem]
    movers: list[Mover]
    remedies: list[ReportRemedy]
    warnings: list[ReportNotice]
    budget: BudgetOutcome | None
    reproduce: Reproduce
    profiles: list[ProfileLoss] = []
    remedies_left_out: Annotated[
        list[RemediesLeftOut], Meta(description="Of those that lose most: no remedies were ranked.")
    ] = []
