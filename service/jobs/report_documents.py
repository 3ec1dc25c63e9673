"""What a caller sends to have a report made, and what it gets back."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.jobs.batch_documents import Name
from service.jobs.documents import MAX_NUMBER
from service.jobs.schedule_documents import Budget, Language, ReportFormat, ReportSettings
from service.reports.loss_report import BudgetOutcome, Headline

ReportState = Literal["queued", "running", "succeeded", "failed"]
PricingNumber = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]


class ReportIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two ended batches to report on; a run of a schedule gets its report by itself.

    Another pricing than the first, and a budget of money, need the scope costs:read.
    """

    batch_id: Annotated[UUID, Meta(description="The batch that is reported on.")]
    baseline_batch_id: (
        Annotated[UUID, Meta(description="What it is compared with: the past.")] | None
    ) = None
    pricing: Annotated[
        PricingNumber,
        Meta(description="Which pricing of the batch; 1 is that of when it ended."),
    ] = 1
    baseline_pricing: Annotated[
        PricingNumber, Meta(description="Which pricing of the baseline, likewise.")
    ] = 1
    name: Annotated[Name, Meta(description="Default: the name of the batch.")] | None = None
    report: ReportSettings = ReportSettings()
    budget: Budget | None = None


class MakingSettings(Struct, frozen=True, kw_only=True):
    """What the row of a report says of how it is made."""

    report: ReportSettings = ReportSettings()
    budget: Budget | None = None
    baseline_missing: str | None = None


class ReportOut(Struct, frozen=True, kw_only=True):
    """Where a report is, and its headline.

    Without the scope costs:read `pricing`, `baseline_pricing` and `sha256` are null, and all money
    of headline and budget is withheld.
    """

    id: UUID
    state: ReportState
    name: str
    batch_id: UUID
    baseline_batch_id: UUID | None
    pricing: int | None
    baseline_pricing: int | None
    schedule_id: UUID | None
    run_id: UUID | None
    local_time: Annotated[
        str | None, Meta(description="Of the run's slot, in `zone`; null without a run.")
    ]
    zone: str | None
    language: Annotated[Language, Meta(description="In which it is shown unless asked otherwise.")]
    failure: str | None
    created_at: datetime
    created_by: str
    running_at: datetime | None
    ended_at: datetime | None
    sha256: Annotated[
        str | None, Meta(description="Of the whole document as JSON, with all money.")
    ]
    content_url: Annotated[
        str | None, Meta(description="Takes `format` and `language`; null until it has succeeded.")
    ]
    version: int


class ReportDetail(ReportOut, frozen=True, kw_only=True):
    """A report with its headline and budget; both null until it has succeeded."""

    headline: Headline | None
    budget: BudgetOutcome | None
    warnings: Annotated[int | None, Meta(description="How many warnings stand in it.")]


class ReportPage(Struct, frozen=True, kw_only=True):
    """A page of reports, newest first."""

    items: list[ReportOut]
    next_page_token: str | None


class ReportContentQuery(Struct, frozen=True, kw_only=True):
    """In which format and language the report is read."""

    format: Annotated[
        ReportFormat, Meta(description="What is made of the report; all have the same numbers.")
    ] = "html"
    language: (
        Annotated[Language, Meta(description="Default: that of the report's settings.")] | None
    ) = None
