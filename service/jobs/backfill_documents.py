"""What a caller sends for a backfill, and what it gets back."""

from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.jobs.reason_sentences import Coded
from service.jobs.run_documents import RunNotice, RunState

MAX_SLOTS = 1_000
BackfillState = Literal["running", "canceling", "ended", "canceled"]
Reprocess = Literal["none", "failed", "all"]


class BackfillIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slots of some days to run, or to run again.

    - `reprocess`: `none` runs the slots for which nothing was ever computed: they are not in the
      ledger, were missed or skipped. `failed` also those that failed, wholly or in part, or were
      canceled or replaced; `all` also those that succeeded. The earlier batch and report are kept.
      A slot that has not ended is left alone;
    - `max_running`: how many of its batches compute at a time, instead of the schedule's
      concurrency policy;
    - `deliver`: whether each run is delivered as one of the night is.
    """

    first_on: Annotated[
        date, Meta(description="First day, of the schedule's zone.", examples=["2026-11-01"])
    ]
    last_on: Annotated[
        date,
        Meta(
            description="Last day, of the schedule's zone and included, as the first is.",
            examples=["2026-11-28"],
        ),
    ]
    reprocess: Annotated[
        Reprocess, Meta(description="Which slots are run again beside those never computed.")
    ] = "none"
    newest_first: Annotated[bool, Meta(description="Begin with the newest slot.")] = False
    max_running: Annotated[
        int, Meta(ge=1, le=50, description="How many of its batches compute at a time.")
    ] = 4
    deliver: Annotated[bool, Meta(description="Deliver each run by the schedule's deliveries.")] = (
        False
    )


class PlannedSlot(Struct, frozen=True, kw_only=True):
    """A slot in the range, and what the backfill does with it."""

    scheduled_for: datetime
    local_time: str
    dst: Literal["gap", "overlap"] | None
    runs: bool
    reason: Annotated[str, Meta(description="Why it is run, or left as it is.")]
    reason_coded: Coded | None = None
    run_id: Annotated[UUID | None, Meta(description="What is in the ledger already.")]
    state: RunState | None
    attempt: int | None
    batch_id: UUID | None


class BackfillPlanOut(Struct, frozen=True, kw_only=True):
    """The answer to `validate_only=true`: nothing was stored."""

    slots: list[PlannedSlot]
    slots_run: int
    slots_left: int
    points_per_run: Annotated[int, Meta(description="Of the newest slot that is run; 0: none.")]
    points_total: int
    points_left: Annotated[
        int | None,
        Meta(
            description="Points that the team may still submit in this hour; runs above it wait "
            "for the next. Null: as many as it likes."
        ),
    ]
    estimated_s: Annotated[
        float, Meta(description="Estimate for two cores, as if nothing could be taken over.")
    ]
    held: Annotated[str | None, Meta(description="Why it would not begin yet.")]
    held_coded: Coded | None = None
    warnings: list[RunNotice]


class RunCounts(Struct, frozen=True, kw_only=True):
    """Runs of a backfill by state; with those `taken_over` by a later one they sum to its slots."""

    due: int = 0
    running: int = 0
    reporting: int = 0
    succeeded: int = 0
    partially_failed: int = 0
    failed: int = 0
    canceled: int = 0
    taken_over: int = 0


class BackfillOut(Struct, frozen=True, kw_only=True):
    """A backfill and how far it is."""

    id: UUID
    schedule_id: UUID
    schedule: Annotated[str, Meta(description="Slug of the schedule.")]
    state: BackfillState
    first_on: date
    last_on: date
    reprocess: Reprocess
    newest_first: bool
    max_running: int
    deliver: bool
    slots: int
    runs: RunCounts
    held: Annotated[str | None, Meta(description="Why nothing more of it begins.")]
    held_coded: Coded | None = None
    runs_url: str
    created_at: datetime
    created_by: str
    canceled_at: datetime | None
    version: Annotated[int, Meta(description="Of the backfill; its runs have their own.")]


class BackfillPage(Struct, frozen=True, kw_only=True):
    """A page of backfills, newest first."""

    items: list[BackfillOut]
    next_page_token: str | None
