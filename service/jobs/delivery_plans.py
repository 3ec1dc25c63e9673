"""What is to be told of an ended run: the outbox, written in the transaction that ends it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec
import uuid_utils.compat

from service.db import deliveries as rows
from service.db import webhook_endpoints
from service.db.engine import Connection, Row
from service.jobs.delivery_reasons import decide
from service.jobs.delivery_rules import check
from service.jobs.reason_sentences import say
from service.jobs.schedule_documents import DeliveryIn, ReportSettings, WebhookDelivery
from service.jobs.webhook_payloads import encode, run_event
from service.reports.loss_report import LossReport
from service.reports.withheld_report import without_costs

__all__ = ["check", "message_id", "plan"]

# Slots that nothing was begun for: the ledger tells them, and a night of them would be a flood.
NEVER_BEGUN: Final = ("misfired", "skipped")
EVENT: Final = {True: "run.reported", False: "run.failed"}


class Planned(Protocol):
    """What the schedule said when the run began (`run_documents.RunSettings`)."""

    @property
    def report(self) -> ReportSettings:
        """How the report is made."""

    @property
    def deliveries(self) -> Sequence[DeliveryIn]:
        """To whom it goes."""


def message_id() -> str:
    """The id of a new message: the same at every attempt, never with a full stop."""
    return f"msg_{uuid_utils.compat.uuid7().hex}"


def plan(
    connection: Connection,
    *,
    run: Row[Any],
    schedule: Row[Any],
    settings: Planned,
    report: LossReport | None,
    state: str,
    reason: str | None,
    now: datetime,
) -> None:
    """Write a delivery for each that the schedule asks for, sent or with why it is not.

    Done twice it is done once: each is known by run, attempt and place in the list.
    """
    if state in NEVER_BEGUN:
        return
    found = [
        {
            "team_id": run.team_id,
            "created_at": now,
            "created_by": f"schedule/{schedule.slug}"[:200],
            "dedup_key": f"{run.id}:{run.attempt}:{position}",
            "run_id": run.id,
            "schedule_id": schedule.id,
            "report_id": None if report is None else report.report_id,
            **_content(connection, delivery, run, schedule, settings, report, (state, reason), now),
        }
        for position, delivery in enumerate(settings.deliveries)
    ]
    rows.insert_once(connection, found)


def _content(
    connection: Connection,
    delivery: DeliveryIn,
    run: Row[Any],
    schedule: Row[Any],
    settings: Planned,
    report: LossReport | None,
    end: tuple[str, str | None],
    now: datetime,
) -> dict[str, Any]:
    state, cause = end
    language = delivery.language or settings.report.language
    endpoint = _endpoint(connection, run.team_id, delivery)
    shows_costs = delivery.include_costs and (endpoint is None or endpoint.include_costs)
    seen = report if shows_costs or report is None else without_costs(report)
    decision = decide(delivery, language, state=state, cause=cause, report=seen)
    send, reason = decision.send, decision.reason
    missing = _missing(delivery, endpoint)
    if send and missing is not None:
        send, reason = False, missing
    payload = None
    if isinstance(delivery, WebhookDelivery):
        event = run_event(run, schedule, seen, state=state, reason=decision.reason, now=now)
        payload = encode(event)
    target = msgspec.to_builtins(msgspec.structs.replace(delivery, language=language))
    return {
        "message_id": message_id(),
        "event": EVENT[report is not None],
        "kind": target["kind"],
        "endpoint_id": None if endpoint is None else endpoint.id,
        "target": target,
        "include_costs": shows_costs,
        "state": rows.PENDING if send else "skipped",
        "reason": reason,
        "payload": payload,
        "next_attempt_at": now if send else None,
        "ended_at": None if send else now,
    }


def _endpoint(connection: Connection, team_id: UUID, delivery: DeliveryIn) -> Row[Any] | None:
    if not isinstance(delivery, WebhookDelivery):
        return None
    return webhook_endpoints.get_endpoint(connection, team_id, delivery.endpoint_id)


def _missing(delivery: DeliveryIn, endpoint: Row[Any] | None) -> str | None:
    if not isinstance(delivery, WebhookDelivery):
        return None
    if endpoint is None:
        return say("endpoint_gone", endpoint_id=delivery.endpoint_id)
    if endpoint.disabled_at is not None:
        return say("endpoint_off", name=repr(endpoint.name))
    return None
