"""What a webhook tells: ids, headline numbers and links, as the bytes that are signed."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, cast
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from service.db.engine import Row
from service.jobs.run_documents import RunKind, RunState
from service.reports.changes import Change
from service.reports.loss_report import BudgetOutcome, LossReport
from service.reports.money import CostStatus, Money

EventType = Literal["run.reported", "run.failed", "webhook.test"]
# Standard Webhooks: smaller than 20 kB
MAX_BYTES: Final = 20_000
MAX_TEXT_LENGTH: Final = 1_000


class EventRun(Struct, frozen=True, kw_only=True):
    """The run that has ended."""

    id: UUID
    schedule_id: UUID
    schedule: Annotated[str, Meta(description="Slug of the schedule.")]
    kind: Annotated[RunKind, Meta(description="Why it was made.")]
    attempt: Annotated[
        int, Meta(description="One more each time that a backfill does the slot again.")
    ]
    scheduled_for: Annotated[datetime, Meta(tz=True, description="The slot, in UTC.")]
    local_time: Annotated[str, Meta(description="The same in `zone`, with its offset.")]
    zone: Annotated[str, Meta(description="Of `local_time`: the schedule's when the slot came.")]
    state: Annotated[RunState, Meta(description="How it has ended.")]


class EventReport(Struct, frozen=True, kw_only=True):
    """The headline of its report, on 30 days."""

    id: UUID
    batch_id: UUID
    baseline_batch_id: Annotated[
        UUID | None, Meta(description="What it is compared with; null: with nothing.")
    ]
    items: Annotated[int, Meta(description="Scenarios of the report.")]
    items_compared: Annotated[int, Meta(description="Those that the baseline has too.")]
    points_failed: Annotated[int, Meta(description="Points of the batch without a result.")]
    gpu_hours_lost_per_30_days: Annotated[float, Meta(description="By all headline points.")]
    loss_fraction: Annotated[float, Meta(description="Of all their GPU-hours; from 0 to 1.")]
    gpu_hours_lost_change: Annotated[
        Change | None, Meta(description="Against the baseline; null without one.")
    ]
    cost_of_loss_per_30_days: Annotated[
        Money | None, Meta(description="null: `cost_status` says why.")
    ]
    cost_status: Annotated[
        CostStatus, Meta(description="`withheld`: the delivery or its endpoint takes no money.")
    ]
    cost_of_loss_difference_per_30_days: Annotated[
        Money | None, Meta(description="Against the baseline; null without money on both sides.")
    ]


class EventData(Struct, frozen=True, kw_only=True):
    """What has happened; the same fields for every type of event."""

    run: Annotated[EventRun | None, Meta(description="null: a `webhook.test`.")]
    report: Annotated[EventReport | None, Meta(description="null: none was made.")]
    budget: Annotated[BudgetOutcome | None, Meta(description="null: the schedule has none.")]
    reason: Annotated[str, Meta(description="Why it is sent, as a sentence in its language.")]
    links: Annotated[
        dict[str, str],
        Meta(
            description="`run`, and of a report `report`, `report_html`, `batch`: addresses of the "
            "API, which need a key. `schedule_page` and of a report `report_page`: for people."
        ),
    ]


class Event(Struct, frozen=True, kw_only=True):
    """The body of a webhook (Standard Webhooks)."""

    type: EventType
    timestamp: Annotated[
        datetime, Meta(tz=True, description="When it happened, not when it is sent.")
    ]
    data: EventData


_encoder: Final = msgspec.json.Encoder()


def run_event(
    run: Row[Any],
    schedule: Row[Any],
    report: LossReport | None,
    *,
    state: str,
    reason: str,
    now: datetime,
) -> Event:
    """The event of a run that has ended; the report as the receiver may see it."""
    return Event(
        type="run.reported" if report is not None else "run.failed",
        timestamp=now,
        data=EventData(
            run=EventRun(
                id=run.id,
                schedule_id=schedule.id,
                schedule=schedule.slug,
                kind=run.kind,
                attempt=run.attempt,
                scheduled_for=run.scheduled_for,
                local_time=run.local_time,
                zone=run.zone,
                state=cast("RunState", state),
            ),
            report=None if report is None else _report(report),
            budget=None if report is None else report.budget,
            reason=reason[:MAX_TEXT_LENGTH],
            links=_links(run, schedule, report),
        ),
    )


def trial_event(reason: str, now: datetime) -> Event:
    """An event that only tries whether the endpoint is reached."""
    data = EventData(run=None, report=None, budget=None, reason=reason, links={})
    return Event(type="webhook.test", timestamp=now, data=data)


def encode(event: Event) -> bytes:
    """The bytes; raises `ValueError` when there are too many of them."""
    found = _encoder.encode(event)
    if len(found) >= MAX_BYTES:
        raise ValueError(f"the event has {len(found)} bytes, but at most {MAX_BYTES} are sent")
    return found


def with_public_links(payload: bytes, public_url: str) -> bytes:
    """The payload with links that lead from anywhere to the service; harmless to repeat."""
    event = msgspec.json.decode(payload, type=Event)
    links = {
        name: public_url + link if link.startswith("/") else link
        for name, link in event.data.links.items()
    }
    data = msgspec.structs.replace(event.data, links=links)
    return _encoder.encode(msgspec.structs.replace(event, data=data))


def _report(report: LossReport) -> EventReport:
    headline = report.headline
    change = headline.cost_of_loss_change
    return EventReport(
        id=report.report_id,
        batch_id=report.batch.batch_id,
        baseline_batch_id=None if report.baseline is None else report.baseline.batch_id,
        items=headline.items,
        items_compared=headline.items_compared,
        points_failed=report.batch.points_failed,
        gpu_hours_lost_per_30_days=headline.gpu_hours_lost_per_30_days,
        loss_fraction=headline.loss_fraction,
        gpu_hours_lost_change=headline.gpu_hours_lost_change,
        cost_of_loss_per_30_days=headline.cost_of_loss_per_30_days,
        cost_status=headline.cost_status,
        cost_of_loss_difference_per_30_days=None if change is None else change.difference,
    )


def _links(run: Row[Any], schedule: Row[Any], report: LossReport | None) -> dict[str, str]:
    # By id: a slug is free again once its schedule is deleted.
    links = {
        "run": f"/v1/schedules/{schedule.id}/runs/{run.id}",
        "schedule_page": f"/schedules/{schedule.id}",
    }
    if report is not None:
        links["report"] = f"/v1/reports/{report.report_id}"
        links["report_html"] = f"/v1/reports/{report.report_id}/content?format=html"
        links["report_page"] = f"/reports/{report.report_id}"
        links["batch"] = f"/v1/scenario-batches/{report.batch.batch_id}"
    return links
