"""Deliveries as they are shown: the log of what was sent, what waits, and what was not sent."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.jobs.reason_sentences import Coded

DeliveryState = Literal["pending", "delivered", "dead", "skipped", "canceled"]
# As it is shown: `withheld` where it would tell of money.
ShownState = Literal[DeliveryState, "withheld"]
DeliveryKind = Literal["webhook", "email", "directory"]


class DeliveryOut(Struct, frozen=True, kw_only=True):
    """A delivery: one message to one place.

    - `pending` waits for its (next) attempt, `delivered` was taken, `dead` was given up after a
      day or for a reason that lasts, `skipped` was not to be sent, `canceled` was called off.
    - `withheld`: it may hold money and `when` is not `always`, so that whether it was sent may tell
      that a budget of money is passed. Readers without costs:read see neither state nor attempts.
    """

    id: UUID
    message_id: Annotated[
        str, Meta(description="The same at every attempt and replay: know repetitions by it.")
    ]
    event: str
    kind: DeliveryKind
    state: ShownState
    reason: Annotated[
        str | None,
        Meta(description="Why it is sent or not; null where it may tell of money (withheld)."),
    ]
    reason_coded: Annotated[
        Coded | None,
        Meta(description="The same as a code; null too where nobody here has said it."),
    ] = None
    endpoint_id: UUID | None
    target: Annotated[
        dict[str, Any],
        Meta(
            description="What the schedule says of the place. Here and in errors mail addresses "
            "are `…@example.org` for those without schedules:write."
        ),
    ]
    schedule_id: UUID | None
    schedule: Annotated[str | None, Meta(description="Slug of the schedule.")]
    run_id: UUID | None
    report_id: UUID | None
    includes_costs: bool
    attempts: Annotated[int | None, Meta(description="null: withheld.")]
    last_status: Annotated[int | None, Meta(description="Of HTTP or SMTP.")]
    last_error: str | None
    last_error_coded: Coded | None = None
    next_attempt_at: datetime | None
    created_at: datetime
    first_attempt_at: Annotated[
        datetime | None, Meta(description="Of this round: a replay begins another.")
    ]
    ended_at: datetime | None
    version: int


class DeliveryAttemptOut(Struct, frozen=True, kw_only=True):
    """One attempt."""

    attempt: int
    started_at: datetime
    duration_ms: int
    status: int | None
    error: str | None
    error_coded: Coded | None = None
    answer: Annotated[
        str | None,
        Meta(
            description="The first bytes of what was answered; for those with webhooks:write, and "
            "of a message with money for those with costs:read too."
        ),
    ]


class DroppedFileOut(Struct, frozen=True, kw_only=True):
    """A file that a directory delivery has written."""

    name: str
    bytes: Annotated[int | None, Meta(description="null where the file may hold money (withheld).")]
    sha256: Annotated[
        str | None, Meta(description="null where the file may hold money (withheld).")
    ]


class DeliveryDetailOut(DeliveryOut, frozen=True, kw_only=True):
    """A delivery with its attempts, and with what it sends or has written."""

    payload: Annotated[
        dict[str, Any] | None,
        Meta(description="The body of a webhook; null where it may tell of money (withheld)."),
    ]
    recipients_reached: list[str]
    recipients_refused: dict[str, str]
    files: list[DroppedFileOut]
    files_expire_at: Annotated[
        datetime | None, Meta(description="When they are removed; null: never, or they are.")
    ]
    attempt_log: Annotated[
        list[DeliveryAttemptOut], Meta(description="The newest hundred, oldest first.")
    ]


class DeliveryPage(Struct, frozen=True, kw_only=True):
    """A page of deliveries, newest first."""

    items: list[DeliveryOut]
    next_page_token: str | None
