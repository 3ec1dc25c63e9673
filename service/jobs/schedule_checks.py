"""What a schedule must be like: every fault of what was sent, each with its place."""

from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from service.db import schedules as rows
from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs import batches, delivery_plans, occurrences
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchPlanOut
from service.jobs.budget_checks import budget_faults
from service.jobs.documents import MAX_FAULTS, faults_of
from service.jobs.labels import label_faults, slug_faults
from service.jobs.occurrences import slots_after
from service.jobs.schedule_documents import BatchTemplate, NamedRun, ScheduleIn
from service.jobs.schedules import id_in
from service.settings import Settings

ALL_FIELDS = frozenset(ScheduleIn.__struct_fields__)
TEMPLATE_FIELDS = frozenset(BatchTemplate.__struct_fields__)


class Checking(Struct, frozen=True, kw_only=True):
    """What is checked: which fields, by which settings, when, and of which schedule (None: new)."""

    settings: Settings
    now: datetime
    fields: Collection[str] = ALL_FIELDS
    schedule_id: UUID | None = None


def decode_schedule(
    connection: Connection, actor: Actor, document: Any, checking: Checking
) -> ScheduleIn:
    """The document as a schedule, normalised; raises `InvalidError` with faults of form.

    Faults of the batch's items are named with them, whatever they are.
    """
    faults = list(islice(faults_of(document, ScheduleIn), MAX_FAULTS))
    if not faults:
        body = msgspec.convert(document, ScheduleIn)
        return msgspec.structs.replace(body, cron=" ".join(body.cron.split()))
    template = document.get("batch") if isinstance(document, dict) else None
    if isinstance(template, dict):
        known = {name: part for name, part in template.items() if name in TEMPLATE_FIELDS}
        try:
            _plan(connection, actor, known, checking, checking.now.date())
        except InvalidError as error:
            places = {(fault.pointer, fault.code) for fault in faults}
            faults += [f for f in _below_batch(error) if (f.pointer, f.code) not in places]
    raise _refusal(faults)


def check_schedule(
    connection: Connection, actor: Actor, body: ScheduleIn, checking: Checking
) -> BatchPlanOut | None:
    """The plan of the batch, where that is checked; raises `InvalidError` with every fault."""
    faults = [*_own_faults(connection, actor, body, checking)]
    plan = None
    if "batch" in checking.fields:
        try:
            template = msgspec.to_builtins(body.batch)
            start_on = first_day(body, checking.now)
            plan = _plan(connection, actor, template, checking, start_on)
        except InvalidError as error:
            faults += _below_batch(error)
    if faults:
        raise _refusal(faults)
    return plan


def first_day(body: ScheduleIn, now: datetime) -> date:
    """First day of the loss window of the next run."""
    try:
        slot = next(slots_after(body.cron, body.zone, now), None)
    except ValueError:
        # The faults of cron and zone are named beside it.
        slot = None
    day = now.date() if slot is None else slot.local.date()
    return day + timedelta(days=body.start_in_days)


def _own_faults(
    connection: Connection, actor: Actor, body: ScheduleIn, checking: Checking
) -> Iterator[FieldFault]:
    fields, limits = checking.fields, checking.settings.limits
    if "slug" in fields:
        yield from slug_faults("/slug", body.slug)
        if id_in(body.slug) is not None:
            detail = f"{body.slug!r} looks like an id, by which schedules are found too"
            yield FieldFault(pointer="/slug", code="slug_is_an_id", detail=detail)
    if "name" in fields:
        yield from label_faults({"/name": body.name})
    if {"cron", "zone"} & {*fields}:
        shortest = limits.schedule_interval_minutes
        yield from occurrences.check(body.cron, body.zone, shortest_minutes=shortest)
    if "baseline" in fields and isinstance(body.baseline, NamedRun):
        yield from _baseline_faults(connection, body.baseline, checking.schedule_id)
    if {"budget", "batch"} & {*fields} and body.budget is not None:
        yield from budget_faults(actor, body.budget, body.batch.currency)
    if "deliveries" in fields:
        for position, delivery in enumerate(body.deliveries):
            if delivery.when == "on_change" and delivery.threshold is None:
                pointer = f"/deliveries/{position}/threshold"
                detail = "on_change needs a threshold: how far the loss must have moved"
                yield FieldFault(pointer=pointer, code="missing_threshold", detail=detail)
        yield from delivery_plans.check(
            connection, actor, body.deliveries, checking.settings.deliveries
        )


def _baseline_faults(
    connection: Connection, baseline: NamedRun, schedule_id: UUID | None
) -> Iterator[FieldFault]:
    if schedule_id is None or not rows.has_run(connection, schedule_id, baseline.run_id):
        detail = f"the schedule has no run {baseline.run_id}"
        yield FieldFault(pointer="/baseline/run_id", code="unknown_run", detail=detail)


def _plan(
    connection: Connection,
    actor: Actor,
    template: Mapping[str, Any],
    checking: Checking,
    start_on: date,
) -> BatchPlanOut:
    """The plan of a batch such as a run submits."""
    document = {**template, "name": "schedule", "start_on": start_on.isoformat()}
    return batches.check(connection, actor, document, checking.settings.limits)


def _below_batch(error: InvalidError) -> list[FieldFault]:
    return [
        FieldFault(pointer=f"/batch{fault.pointer}", code=fault.code, detail=fault.detail)
        for fault in error.errors
    ] or [FieldFault(pointer="/batch", code=error.problem.replace("-", "_"), detail=error.detail)]


def _refusal(faults: list[FieldFault]) -> InvalidError:
    detail = faults[0].detail
    if len(faults) > 1:
        detail = f"{len(faults)} values of the schedule are invalid"
    return InvalidError(detail, problem="invalid-schedule", errors=faults[:MAX_FAULTS])
