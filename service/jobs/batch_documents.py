"""What a caller sends for a batch and what it gets back."""

from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.model.remedy.remedy_kinds import MAX_REQUESTS, RemedyRequest

BatchState = Literal[
    "queued",
    "running",
    "canceling",
    "succeeded",
    "partially_failed",
    "failed",
    "canceled",
    "expired",
]
TERMINAL_STATES = ("succeeded", "partially_failed", "failed", "canceled", "expired")
WITH_RESULTS = ("succeeded", "partially_failed", "canceled", "expired")
DEFAULT_PRIORITY = 5

Name = Annotated[str, Meta(min_length=1, max_length=200)]
CustomId = Annotated[
    str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$")
]
Currency = Annotated[
    str, Meta(pattern=r"^[A-Z]{3}$", max_length=3, description="ISO 4217 code", examples=["EUR"])
]
ScenarioObject = Annotated[
    dict[str, Any],
    Meta(
        description="A whole scenario; see the Scenario schema.",
        extra_json_schema={"$ref": "#/components/schemas/Scenario"},
    ),
]
Overrides = Annotated[
    dict[str, Any],
    Meta(
        description="Paths and the values put there, applied after the profile's defaults; a value "
        'replaces everything at its path, e.g. {"num_gpus": 512, "variability.transient": null}.',
        examples=[{"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}],
    ),
]


RemedyRequests = Annotated[
    list[RemedyRequest],
    Meta(
        max_length=MAX_REQUESTS,
        description="Which remedies to try, and with what; empty: all of them with their default "
        "settings. Those that do not apply are left out.",
        examples=[[{"kind": "hot_spares", "counts": [1, 2, 4]}]],
    ),
]


class Pricing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rate key prices the item, where it is not the profile's."""

    gpu_type: Annotated[str, Meta(min_length=1, max_length=64)]
    cost_center: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


ProfileReference = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=80,
        description="`slug` (newest revision) or `slug@revision`.",
        examples=["prod-h100@1"],
    ),
]


class BatchItemIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario of a batch, or a grid of them: a profile or an inline scenario."""

    custom_id: Annotated[CustomId, Meta(description="Unique in the batch.")]
    name: (
        Annotated[
            Name, Meta(description="Names the scenario for the loss history; default: custom_id.")
        ]
        | None
    ) = None
    profile: ProfileReference | None = None
    scenario: ScenarioObject | None = None
    overrides: Overrides = {}
    axes: Annotated[
        list[dict[str, Any]],
        Meta(
            max_length=16,
            description="Grid axes, multiplied with each other in the order listed: "
            "`{path, values | range | logspace | powers_of_two}` or `{zip: [axis, …]}`.",
            examples=[[{"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}}]],
        ),
    ] = []
    analysis: Annotated[
        Literal["scenario", "remedies"],
        Meta(
            description="`remedies`: point 0 is the scenario as it is, every other point one "
            "remedy, with the columns `remedy`, `remedy_count` and `gpu_hours_given_back`; then "
            "`axes` and `headline` must be left out."
        ),
    ] = "scenario"
    remedies: RemedyRequests = []
    headline: (
        Annotated[
            dict[str, Any],
            Meta(description="The one point that totals count: a value for every axis path."),
        ]
        | None
    ) = None
    pricing: Pricing | None = None
    start_on: date | None = None


Priority = Annotated[
    int,
    Meta(
        ge=1,
        le=9,
        description="1 is computed first, 9 last, among the batches of the team.",
    ),
]
Deadline = Annotated[
    datetime,
    Meta(
        tz=True,
        description="A batch that has not ended by then is `expired`; what is finished is kept.",
        examples=["2099-12-31T06:00:00Z"],
    ),
]


class BatchIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A batch of scenarios over one loss window."""

    name: Name
    items: Annotated[list[BatchItemIn], Meta(min_length=1)]
    start_on: (
        Annotated[date, Meta(description="First day of the loss window; default: today (UTC).")]
        | None
    ) = None
    currency: (
        Annotated[Currency, Meta(description="Money is given in it where dated rates exist.")]
        | None
    ) = None
    metadata: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=64)], Annotated[str, Meta(max_length=512)]
        ],
        Meta(max_length=16),
    ] = {}
    priority: Priority = DEFAULT_PRIORITY
    deadline_at: Deadline | None = None
    reuse: Annotated[
        bool,
        Meta(
            description="Results of an ended batch with equal inputs and model version are taken "
            "over instead of computed again; money is priced anew. `false` computes."
        ),
    ] = True


class RetryIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the retry is taken; what is left out is as in the batch that is retried."""

    priority: Priority | None = None
    deadline_at: Deadline | None = None


class Counts(Struct, frozen=True, kw_only=True):
    """Items by state; they sum to `total`."""

    total: int
    pending: int
    running: int
    succeeded: int
    failed: int
    canceled: int


class Notice(Struct, frozen=True, kw_only=True):
    """Something the caller should know that is no error."""

    pointer: str
    code: str
    detail: str


class BatchOut(Struct, frozen=True, kw_only=True):
    """A batch: its state, its progress and where to go on."""

    id: UUID
    name: str
    state: BatchState
    counts: Counts
    points_done: int
    points_failed: int
    points_total: int
    start_on: date
    currency: str | None
    metadata: dict[str, str]
    priority: int
    deadline_at: datetime | None
    input_digest: str
    model_version: str
    reused_from: Annotated[
        UUID | None, Meta(description="The batch whose stored results this one takes over.")
    ]
    retry_of: Annotated[
        UUID | None, Meta(description="The batch whose unfinished items this one computes.")
    ]
    warnings: list[Notice]
    failure: str | None
    rates_as_of: datetime | None
    created_at: datetime
    created_by: str
    queued_at: datetime
    running_at: datetime | None
    canceling_at: datetime | None
    ended_at: datetime | None
    version: int
    results_url: str
    errors_url: str
    events_url: str


class BatchPage(Struct, frozen=True, kw_only=True):
    """A page of batches, newest first."""

    items: list[BatchOut]
    next_page_token: str | None


class PlannedItemOut(Struct, frozen=True, kw_only=True):
    """What an item would compute."""

    custom_id: str
    profile: str | None
    points: int
    points_failing: int
    headline_point: int | None
    scenario: ScenarioObject


class BatchPlanOut(Struct, frozen=True, kw_only=True):
    """The answer to `validate_only=true`: nothing was stored."""

    points_total: int
    points_failing: int
    draws_total: Annotated[
        int,
        Meta(
            description="Clusters to draw for the points whose spread is sampled; of points whose "
            "steps are simulated one for 125 steps of single GPUs."
        ),
    ]
    points_left: Annotated[
        int | None,
        Meta(
            description="Points that the team may still submit in this hour, before this batch; "
            "null: as many as it likes."
        ),
    ]
    estimated_s: Annotated[
        float, Meta(description="Estimate for two cores, from measured costs of points.")
    ]
    input_digest: str
    reused_from: Annotated[
        UUID | None, Meta(description="The batch whose results would be taken over.")
    ]
    items: list[PlannedItemOut]
    warnings: list[Notice]


class PointFaultOut(Struct, frozen=True, kw_only=True):
    """One failed point: the rule that it breaks, or why its chunk could not be computed."""

    item: int
    custom_id: str
    point: int
    inputs: dict[str, Any]
    pointer: str
    code: str
    detail: str


class PointFaultPage(Struct, frozen=True, kw_only=True):
    """A page of failed points."""

    errors_total: int
    items: list[PointFaultOut]
    next_page_token: str | None
