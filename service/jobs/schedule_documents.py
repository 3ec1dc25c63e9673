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

    items: Annotated[
        list[BatchItemIn],
        Meta(min_length=1, description="Grids of scenarios, as a batch has them."),
    ]
    currency: Annotated[
        Currency | None, Meta(description="Of the costs; null: the batch has no costs.")
    ] = None
    metadata: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=64)], Annotated[str, Meta(max_length=512)]
        ],
        Meta(max_length=16, description="Labels that each batch gets."),
    ] = {}
    priority: Annotated[Priority, Meta(description="1 is computed first, 9 last.")] = (
        DEFAULT_PRIORITY
    )
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

    run_id: Annotated[UUID, Meta(description="A run of the same schedule.")]


class DatedRun(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="date"
):
    """Compare with the newest run whose slot lies on or before a day (of the schedule's zone)."""

    on: Annotated[
        date, Meta(description="Last day of the slot that counts.", examples=["2026-12-01"])
    ]


Baseline = PreviousRun | NamedRun | DatedRun


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be lost in 30 days by all headline points together; either or both.

    A budget of money needs costs:read, and its outcome is withheld from those without.
    """

    gpu_hours_lost_per_30_days: Annotated[
        Hours | None, Meta(description="GPU-hours that may be lost in 30 days.")
    ] = None
    cost_of_loss_per_30_days: Annotated[
        Money | None,
        Meta(
            description="What the loss of 30 days may cost. Days without a rate are in no sum: "
            "what has one may be over the budget by itself, else the outcome is unknown."
        ),
    ] = None


class ChangeThreshold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the 30-day loss must move against the baseline; whichever is passed first counts."""

    gpu_hours_lost_per_30_days: Annotated[
        Hours | None, Meta(description="By how many GPU-hours it must have moved, up or down.")
    ] = None
    relative: Annotated[
        Fraction | None, Meta(description="Of the baseline's loss; 0.05 is five percent.")
    ] = None


class _Delivery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all ways of delivery share.

    - `when`: `always`; `not_empty`: not when nothing is lost or no point has a result;
      `on_change`: only when the loss moved by more than `threshold` (there is no baseline: it is
      sent). A run that has failed or is over its budget is always told.
    - `include_costs`: whether money may stand in it; to say so needs costs:read. Without it a
      budget of money is no reason to send it either: that would tell of money.
    """

    when: Annotated[
        Literal["always", "not_empty", "on_change"], Meta(description="After which runs.")
    ] = "always"
    threshold: Annotated[
        ChangeThreshold | None,
        Meta(description="Of `on_change`, which needs one; else null."),
    ] = None
    include_costs: Annotated[
        bool, Meta(description="Whether money may stand in it; to say so needs costs:read.")
    ] = False
    language: Annotated[
        Language | None, Meta(description="Default: that of the schedule's report.")
    ] = None


class WebhookDelivery(_Delivery, frozen=True, kw_only=True, tag_field="kind", tag="webhook"):
    """Tell a webhook endpoint (ids, headline numbers and links, signed)."""

    endpoint_id: Annotated[UUID, Meta(description="A webhook endpoint of the team.")]


class EmailDelivery(_Delivery, frozen=True, kw_only=True, tag_field="kind", tag="email"):
    """Send the report by e-mail: HTML with plain text beside it, and files if wished."""

    to: Annotated[
        list[Annotated[str, Meta(min_length=3, max_length=254)]],
        Meta(
            min_length=1,
            max_length=MAX_RECIPIENTS,
            description="Addresses, of the domains that the service sends to.",
            examples=[["finance@example.org"]],
        ),
    ]
    attach: Annotated[
        list[ReportFormat], Meta(max_length=5, description="The report as files of these formats.")
    ] = []


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
    formats: Annotated[
        list[ReportFormat],
        Meta(min_length=1, max_length=5, description="A file each, and a sidecar that names them."),
    ] = field(default_factory=lambda: ["html"])
    keep_days: Annotated[
        int, Meta(ge=0, le=36_500, description="Files are removed after so many days; 0: never.")
    ] = 0


DeliveryIn = WebhookDelivery | EmailDelivery | DirectoryDelivery


class ReportSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the report of a run is like."""

    language: Annotated[
        Language, Meta(description="In which it is shown unless asked otherwise.")
    ] = "en"
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
      skips it, `queue` lets it wait (the newest 100 do, older ones are skipped), `replace` cancels
      the run before. Missed slots that are run wait for each other and push nobody out: what comes
      in its time waits for them;
    - `profiles_as_of`: `newest` revision when the run begins, or the one that was newest at the
      `slot` (which makes a difference for backfills).
    """

    slug: Annotated[Slug, Meta(description="Its name in paths; it stays as it is.")]
    name: Annotated[Name, Meta(description="What its reports and messages are called.")]
    cron: Cron
    zone: Zone
    batch: Annotated[BatchTemplate, Meta(description="What each run computes.")]
    start_in_days: Annotated[
        int,
        Meta(
            ge=-3_660,
            le=3_660,
            description="First day of the loss window, in days from the slot's day.",
        ),
    ] = 0
    baseline: Annotated[
        Baseline | None, Meta(description="What each run is compared with; null: with nothing.")
    ] = PreviousRun()
    misfire_policy: Annotated[
        MisfirePolicy, Meta(description="What becomes of slots that were missed.")
    ] = "run_latest"
    misfire_max_runs: Annotated[
        int, Meta(ge=1, le=1_000, description="How many missed slots `run_all` runs at most.")
    ] = 10
    misfire_grace_s: Annotated[
        int, Meta(ge=1, le=86_400, description="Seconds after which a slot counts as missed.")
    ] = 300
    concurrency_policy: Annotated[
        ConcurrencyPolicy, Meta(description="What becomes of a slot while a run has not ended.")
    ] = "queue"
    profiles_as_of: Annotated[
        Literal["newest", "slot"],
        Meta(description="Which revision of a profile counts that the batch does not pin."),
    ] = "newest"
    report: Annotated[ReportSettings, Meta(description="What its reports are like.")] = (
        ReportSettings()
    )
    deliveries: Annotated[
        list[DeliveryIn],
        Meta(max_length=MAX_DELIVERIES, description="To whom each report goes, and when."),
    ] = []
    budget: Annotated[
        Budget | None, Meta(description="How much may be lost; null: there is none.")
    ] = None
    paused: Annotated[
        bool, Meta(description="Whether it waits until it is resumed; no slot comes meanwhile.")
    ] = False


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
