"""What a caller sends for a schedule: when it runs, what it computes, and what becomes of it."""

from datetime import date
from typing import Annotated, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, field
from msgspec.structs import fields

from service.jobs.batch_documents import (
    DEFAULT_PRIORITY,
    BatchItemIn,
    Currency,
    Name,
    Priority,
)
from service.jobs.labels import Slug
from service.reports.money import Money

MAX_DELIVERIES = 20
MAX_RECIPIENTS = 50

MisfirePolicy = Literal["skip", "run_latest", "run_all"]
ConcurrencyPolicy = Literal["forbid", "queue", "replace"]
Language = Literal["en", "fr"]
ReportFormat = Literal["html", "json", "csv", "parquet", "focus"]
Hours = Annotated[float, Meta(gt=0, le=1e15)]
Fraction = Annotated[float, Meta(gt=0, le=1e6)]

Cron = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Five fields: minute, hour, day of the month, month, day of the week, in the "
        "wall time of `zone`; names, ranges, steps, lists, `L` and `#` as cronsim reads them. "
        "Where both day fields are restricted, either of them is enough, as in Debian's cron.",
        examples=["30 2 * * *"],
    ),
]
Zone = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="IANA time zone. A wall time that does not exist on a night of change comes at "
        "the first moment after the gap, one that exists twice comes once, the first time; what "
        "comes every hour or minute goes on by elapsed time.",
        examples=["Europe/Paris"],
    ),
]


class BatchTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The batch that each run submits; a profile by slug is that of the day, unless pinned."""

    items: Annotated[list[BatchItemIn], Meta(min_length=1)]
    currency: Currency | None = None
    metadata: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=64)], Annotated[str, Meta(max_length=512)]
        ],
        Meta(max_length=16),
    ] = {}
    priority: Priority = DEFAULT_PRIORITY
    reuse: Annotated[
        bool, Meta(description="Take over stored results of equal inputs and model version.")
    ] = True


class PreviousRun(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="previous"
):
    """Compare with the newest run of an earlier slot that has results."""


class NamedRun(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="run"
):
    """Compare with one run of the schedule for ever."""

    run_id: UUID


class DatedRun(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="date"
):
    """Compare with the newest run whose slot lies on or before a day (of the schedule's zone)."""

    on: Annotated[date, Meta(examples=["2026-12-01"])]


Baseline = PreviousRun | NamedRun | DatedRun


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be lost in 30 days by all headline points together; either or both.

    A budget of money needs costs:read, and its outcome is withheld from those without.
    """

    gpu_hours_lost_per_30_days: Hours | None = None
    cost_of_loss_per_30_days: Money | None = None


class ChangeThreshold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the 30-day loss must move against the baseline; whichever is passed first counts."""

    gpu_hours_lost_per_30_days: Hours | None = None
    relative: Annotated[
        Fraction | None, Meta(description="Of the baseline's loss; 0.05 is five percent.")
    ] = None


class _Delivery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all ways of delivery share.

    - `when`: `always`; `not_empty`: not when nothing is lost or no point has a result;
      `on_change`: only when the loss moved by more than `threshold` (there is no baseline: it is
      sent). A run that has failed or is over its budget is always told.
    - `include_costs`: whether money may stand in it; to say so needs costs:read.
    """

    when: Literal["always", "not_empty", "on_change"] = "always"
    threshold: ChangeThreshold | None = None
    include_costs: bool = False
    language: Annotated[
        Language | None, Meta(description="Default: that of the schedule's report.")
    ] = None


class WebhookDelivery(_Delivery, frozen=True, kw_only=True, tag_field="kind", tag="webhook"):
    """Tell a webhook endpoint (ids, headline numbers and links, signed)."""

    endpoint_id: UUID


class EmailDelivery(_Delivery, frozen=True, kw_only=True, tag_field="kind", tag="email"):
    """Send the report by e-mail: HTML with plain text beside it, and files if wished."""

    to: Annotated[
        list[Annotated[str, Meta(min_length=3, max_length=254)]],
        Meta(min_length=1, max_length=MAX_RECIPIENTS),
    ]
    attach: Annotated[list[ReportFormat], Meta(max_length=5)] = []


class DirectoryDelivery(_Delivery, frozen=True, kw_only=True, tag_field="kind", tag="directory"):
    """Write files into a folder beneath the service's TRAINARD_DELIVERY_FOLDER."""

    folder: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="Relative path: letters, digits, `.`, `_`, `-` and inner slashes.",
            examples=["finance/nightly"],
        ),
    ]
    formats: Annotated[list[ReportFormat], Meta(min_length=1, max_length=5)] = field(
        default_factory=lambda: ["html"]
    )
    keep_days: Annotated[
        int, Meta(ge=0, le=36_500, description="Files are removed after so many days; 0: never.")
    ] = 0


DeliveryIn = WebhookDelivery | EmailDelivery | DirectoryDelivery


class ReportSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the report of a run is like."""

    language: Language = "en"
    remedies: Annotated[
        bool, Meta(description="Rank remedies for the scenarios that lose most.")
    ] = True
    movers: Annotated[
        int, Meta(ge=1, le=100, description="How many of the biggest movers are shown.")
    ] = 10


class ScheduleIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule: a batch that is computed again and again, and reported on.

    - `start_in_days`: first day of the loss window, counted from the slot's day in its zone;
    - `misfire_policy`: what becomes of slots that nobody was there for (all of them stand in the
      ledger): `run_latest` runs the newest one only, `run_all` the newest `misfire_max_runs`,
      `skip` none. A slot is missed when it is `misfire_grace_s` late;
    - `concurrency_policy`: what becomes of a slot while a run before it has not ended: `forbid`
      skips it, `queue` lets it wait, `replace` cancels the run before;
    - `profiles_as_of`: `newest` revision when the run begins, or the one that was newest at the
      `slot` (which makes a difference for backfills).
    """

    slug: Slug
    name: Name
    cron: Cron
    zone: Zone
    batch: BatchTemplate
    start_in_days: Annotated[int, Meta(ge=-3_660, le=3_660)] = 0
    baseline: Baseline | None = PreviousRun()
    misfire_policy: MisfirePolicy = "run_latest"
    misfire_max_runs: Annotated[int, Meta(ge=1, le=1_000)] = 10
    misfire_grace_s: Annotated[int, Meta(ge=1, le=86_400)] = 300
    concurrency_policy: ConcurrencyPolicy = "queue"
    profiles_as_of: Literal["newest", "slot"] = "newest"
    report: ReportSettings = ReportSettings()
    deliveries: Annotated[list[DeliveryIn], Meta(max_length=MAX_DELIVERIES)] = []
    budget: Budget | None = None
    paused: bool = False


# What is to be another, each field as a whole; what is not given stays.
ScheduleChangeIn = defstruct(
    "ScheduleChangeIn",
    [
        (part.name, part.type | UnsetType, UNSET)
        for part in fields(ScheduleIn)
        if part.name != "slug"
    ],
    namespace={"__doc__": "What is to be another, each field as a whole; what is not given stays."},
    module=__name__,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
