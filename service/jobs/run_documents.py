"""What a run of a schedule is: what it keeps of its schedule, and how it is shown."""

from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.jobs.batch_documents import BatchState, Counts, Currency, Notice
from service.jobs.reason_sentences import Coded
from service.jobs.schedule_documents import Baseline, Budget, DeliveryIn, ReportSettings
from service.reports.loss_report import BudgetStatus

RunKind = Literal["scheduled", "manual", "backfill"]
RunState = Literal[
    "due",
    "running",
    "reporting",
    "succeeded",
    "partially_failed",
    "failed",
    "canceled",
    "misfired",
    "skipped",
    "replaced",
]
# Not begun, and begun and not ended
WAITING = ("due",)
ACTIVE = ("running", "reporting")
UNFINISHED_RUNS = (*WAITING, *ACTIVE)
# Nothing was ever computed for the slot
NEVER_BEGUN = ("misfired", "skipped")
BaselineMissing = Literal[
    "none_asked",
    "no_earlier_run",
    "no_run_by_date",
    "named_run_gone",
    "named_run_without_results",
    "named_run_itself",
]


class RunSettings(Struct, frozen=True, kw_only=True):
    """What the schedule said of a run's report and deliveries when the run began."""

    report: ReportSettings = ReportSettings()
    deliveries: list[DeliveryIn] = []
    budget: Budget | None = None
    baseline: Baseline | None = None
    currency: Currency | None = None


class EarlierAttempt(Struct, frozen=True, kw_only=True):
    """What is left of an earlier attempt at the slot: its results and its report are kept."""

    attempt: int
    state: RunState
    batch_id: UUID | None
    report_id: UUID | None
    ended_at: datetime | None


class RunBatch(Struct, frozen=True, kw_only=True):
    """How far the batch of a run is."""

    state: BatchState
    counts: Counts
    points_done: int
    points_failed: int
    points_total: int


class RunNotice(Notice, frozen=True, kw_only=True):
    """Something to know of a run; `values`: what stands in its sentence, by name."""

    values: dict[str, str]


class RunOut(Struct, frozen=True, kw_only=True):
    """A slot of a schedule and what became of it."""

    id: UUID
    schedule_id: UUID
    schedule: Annotated[str, Meta(description="Slug of the schedule.")]
    kind: RunKind
    scheduled_for: Annotated[datetime, Meta(description="The slot, or when it was asked for.")]
    local_time: Annotated[str, Meta(description="The same in `zone`.")]
    zone: Annotated[str, Meta(description="The schedule's when the slot came.")]
    state: RunState
    reason: Annotated[
        str | None, Meta(description="Why it was skipped, replaced, has failed or waits now.")
    ]
    reason_coded: Coded | None = None
    attempt: Annotated[int, Meta(description="One more each time that a backfill does it again.")]
    backfill_id: UUID | None
    start_on: Annotated[date, Meta(description="First day of the loss window.")]
    batch_id: UUID | None
    batch_url: str | None
    batch: Annotated[RunBatch | None, Meta(description="Null before it begins.")]
    report_id: UUID | None
    report_url: str | None
    baseline_run_id: Annotated[UUID | None, Meta(description="The run it is compared with.")]
    baseline_missing: Annotated[
        BaselineMissing | None, Meta(description="Why it is compared with none.")
    ]
    budget_status: Annotated[
        BudgetStatus | None,
        Meta(
            description="`withheld`: there is a budget of money, the reader may not see any, and "
            "the GPU-hours alone do not say `over`."
        ),
    ]
    warnings: list[RunNotice]
    earlier_attempts: list[EarlierAttempt]
    schedule_version: Annotated[
        int | None, Meta(description="Of the schedule when the run began; null before.")
    ]
    tzdata_version: str
    not_before: Annotated[
        datetime | None, Meta(description="When it is tried again, where it had to wait.")
    ]
    created_at: datetime
    created_by: str
    started_at: datetime | None
    ended_at: datetime | None
    version: int


class RunPage(Struct, frozen=True, kw_only=True):
    """A page of runs, the newest slot first."""

    items: list[RunOut]
    next_page_token: str | None
