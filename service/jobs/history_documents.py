"""What is asked of a loss history, and what is answered."""

from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct, field

from service.jobs.documents import MAX_NUMBER
from service.reports.history import HistoryRow
from service.reports.history_totals import HistoryTotal

Step = Literal["run", "day", "week", "month"]


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """Which runs, over which time, and how they are told.

    At least one of `scenario`, `schedule`, `profile` and `group_by` is needed. Days are local days
    of the schedule's slots; without a schedule they are the first days of the windows.
    """

    scenario: (
        Annotated[str, Meta(min_length=1, max_length=200, description="Name of the scenario.")]
        | None
    ) = None
    profile: (
        Annotated[str, Meta(max_length=64, description="Only runs of this profile slug.")] | None
    ) = None
    schedule: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=64,
                description="Only runs of this schedule (id or slug; of a deleted one its id): one "
                "for each slot, the newest attempt at it.",
            ),
        ]
        | None
    ) = None
    group_by: Annotated[
        Literal["scenario", "profile", "team"] | None,
        Meta(description="`profile` and `team`: totals of headline points, one for each run."),
    ] = None
    since: (
        Annotated[date, Meta(description="First day that counts.", examples=["2026-12-01"])] | None
    ) = field(default=None, name="from")
    until: (
        Annotated[date, Meta(description="The day after the last.", examples=["2027-01-01"])] | None
    ) = None
    window: (
        Annotated[
            str,
            Meta(
                max_length=5,
                pattern=r"^[1-9][0-9]{0,3}d$",
                description="So many days back from `until`, else from the day after today.",
                examples=["30d"],
            ),
        ]
        | None
    ) = None
    step: Annotated[
        Step, Meta(description="The last run of each day, ISO week or month; or every run.")
    ] = "run"
    as_of: (
        Annotated[
            datetime,
            Meta(
                tz=True,
                description="As it was known then: runs that had ended, the attempt that was the "
                "newest, and the newest pricing made by then.",
                examples=["2026-12-15T08:00:00Z"],
            ),
        ]
        | None
    ) = None
    pricing: Annotated[
        Literal["first", "newest"] | None,
        Meta(description="By default the first; with `as_of` the newest made by then."),
    ] = None
    limit: Annotated[
        int, Meta(ge=1, le=1000, description="The newest so many runs: before `step`.")
    ] = 100
    page_size: Annotated[
        int, Meta(ge=1, le=MAX_NUMBER, description="More than the limit becomes the limit.")
    ] = 1000
    page_token: (
        Annotated[str, Meta(max_length=4000, description="`next_page_token` of the page before.")]
        | None
    ) = None


class HistoryOut(Struct, frozen=True, kw_only=True):
    """The runs of a scenario, oldest first. Windows may overlap: nothing here is to be added.

    The first of them are compared with the run before them, which is not shown itself.
    `items` are filled by scenario, `totals` by profile or team.
    """

    scenario: str | None
    schedule_id: UUID | None
    group_by: Literal["scenario", "profile", "team"]
    items: list[HistoryRow]
    totals: list[HistoryTotal]
    without_headline: Annotated[
        int,
        Meta(description="Items of this name without a headline point: they have no place here."),
    ]
    failed: Annotated[int, Meta(description="Items whose headline point failed, in these runs.")]
    runs_without_results: Annotated[
        dict[str, int],
        Meta(description="Slots of the schedule that have no results, by the state of their run."),
    ]
    truncated: Annotated[
        bool,
        Meta(description="Whether `limit` left out older runs of the days that were asked for."),
    ]
    next_page_token: str | None
