"""The `webhooks` of the OpenAPI document: what the service itself sends to registered endpoints."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from service.api.contract import JSON
from service.api.openapi_parts import Part
from service.jobs.webhook_payloads import (
    Event,
    EventData,
    EventReport,
    EventRun,
    EventType,
    trial_event,
)
from service.reports.changes import change
from service.reports.money import CostStatus

_AT: Final = datetime(2026, 12, 1, 1, 31, 7, tzinfo=UTC)
_RUN: Final = EventRun(
    id=UUID("01a22c62-874f-710f-a9d8-8dc7c6404430"),
    schedule_id=UUID("01a22c62-0f11-7c0a-8f5e-3b1f6a9d2c01"),
    schedule="nightly",
    kind="scheduled",
    attempt=1,
    scheduled_for=datetime(2026, 12, 1, 1, 30, tzinfo=UTC),
    local_time="2026-12-01T02:30:00+01:00",
    zone="Europe/Paris",
    state="succeeded",
)
_RUN_PATH: Final = f"/v1/schedules/{_RUN.schedule_id}/runs/{_RUN.id}"
_PAGE_PATH: Final = f"/schedules/{_RUN.schedule_id}"
_REPORT: Final = EventReport(
    id=UUID("01a22c63-5d20-7a51-9a3e-6f0c1b2d3e4f"),
    batch_id=UUID("01a22c62-9b7c-7e21-8c55-0d1e2f3a4b5c"),
    baseline_batch_id=UUID("01a22735-6c1e-7d3f-9b66-1e2f3a4b5c6d"),
    items=1,
    items_compared=1,
    points_failed=0,
    gpu_hours_lost_per_30_days=176_008.5,
    loss_fraction=0.2387,
    gpu_hours_lost_change=change(160_000.0, 176_008.5),
    cost_of_loss_per_30_days=None,
    cost_status=CostStatus.WITHHELD,
    cost_of_loss_difference_per_30_days=None,
)
_FAILED: Final = msgspec.structs.replace(_RUN, state="failed")
_EXAMPLES: Final[dict[EventType, Event]] = {
    "run.reported": Event(
        type="run.reported",
        timestamp=_AT,
        data=EventData(
            run=_RUN,
            report=_REPORT,
            budget=None,
            reason="Every run is delivered.",
            links={
                "run": _RUN_PATH,
                "schedule_page": _PAGE_PATH,
                "report": f"/v1/reports/{_REPORT.id}",
                "report_html": f"/v1/reports/{_REPORT.id}/content?format=html",
                "report_page": f"/reports/{_REPORT.id}",
                "batch": f"/v1/scenario-batches/{_REPORT.batch_id}",
            },
        ),
    ),
    "run.failed": Event(
        type="run.failed",
        timestamp=_AT,
        data=EventData(
            run=_FAILED,
            report=None,
            budget=None,
            reason="The run failed: profile h100 is archived",
            links={"run": _RUN_PATH, "schedule_page": _PAGE_PATH},
        ),
    ),
    "webhook.test": trial_event("A test that ada has asked for.", _AT),
}
_SUMMARIES: Final[dict[EventType, str]] = {
    "run.reported": "A run of a schedule has ended with a report",
    "run.failed": "A run of a schedule has ended without a report",
    "webhook.test": "Somebody tries whether the endpoint is reached",
}
_HEADERS: Final = {
    "webhook-id": "Of the message: the same at each attempt and replay. Take each only once.",
    "webhook-timestamp": "Seconds since 1970 of the attempt. Refuse what is older than five "
    "minutes.",
    "webhook-signature": "`v1,` and the base64 of the HMAC-SHA256 over id, timestamp and body, "
    "joined by dots; one for each live secret, with a space between.",
}


def webhooks(schema_of: Callable[[Any], Part]) -> dict[str, Part]:
    """One entry for each type of event, all with the schema of the message."""
    schema = schema_of(Event)
    return {kind: {"post": _post(kind, schema)} for kind in _SUMMARIES}


def _post(kind: EventType, schema: Part) -> Part:
    return {
        "operationId": f"webhook_{kind.replace('.', '_')}",
        "summary": _SUMMARIES[kind],
        "description": "Signed by Standard Webhooks 1.0.0. What is not answered with 2xx within "
        "15 s is sent again for about a day, with the same id and bytes; take each id once.",
        "tags": ["Webhooks"],
        "security": [],
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": text,
                "schema": {"type": "string"},
            }
            for name, text in _HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": schema, "example": msgspec.to_builtins(_EXAMPLES[kind])}},
        },
        "responses": {
            "2XX": {
                "description": "The message was taken. Of the body of an answer 1 000 bytes are "
                "kept in the log of deliveries, whatever its status."
            },
            "3XX": {"description": "A failure, tried again: redirects are not followed."},
            "410": {"description": "The endpoint wants no more messages: it is disabled."},
            "default": {
                "description": "A failure, tried again.",
                "headers": {
                    "Retry-After": {
                        "description": "Seconds or a moment before which it is not tried again, "
                        "up to six hours.",
                        "schema": {"type": "string"},
                    }
                },
            },
        },
    }
