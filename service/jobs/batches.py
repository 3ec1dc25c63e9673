"""Use cases of scenario batches: check, submit, read, list, cancel, failed points."""

from datetime import UTC, date, datetime
from itertools import islice
from typing import Any, cast
from uuid import UUID

import msgspec
import numpy as np
import uuid_utils.compat

from service.db import batches, pricings
from service.db.engine import Connection, Row
from service.errors import ConflictError, FieldFault, InvalidError, NotFoundError, UnavailableError
from service.jobs.actors import Actor
from service.jobs.batch_documents import (
    TERMINAL_STATES,
    BatchIn,
    BatchItemIn,
    BatchOut,
    BatchPage,
    BatchPlanOut,
    BatchState,
    Counts,
    Notice,
    PlannedItemOut,
    PointFaultOut,
    PointFaultPage,
)
from service.jobs.chunks import grid_of, stored_input_columns
from service.jobs.documents import MAX_FAULTS, faults_of
from service.jobs.page_tokens import make_token, read_token
from service.jobs.planning import CHUNK_POINTS, Plan, PlannedItem, plan_items
from service.model import MODEL_VERSION
from service.model.rules import describe_failure
from service.reports.money import MoneyError, minor_digits
from service.settings import Limits

# Measured on two cores with two slow groups, quantiles and attribution (README, results table).
POINTS_PER_S = 150_000


def check(connection: Connection, actor: Actor, document: Any, limits: Limits) -> BatchPlanOut:
    """What `submit` would do, without storing anything; raises `InvalidError` as it does."""
    _, plan = _plan(connection, actor, document, limits)
    return BatchPlanOut(
        points_total=plan.num_points,
        points_failing=sum(item.points_failing for item in plan.items),
        estimated_s=round(0.1 + plan.num_points / POINTS_PER_S, 1),
        input_digest=plan.input_digest,
        warnings=plan.warnings,
        items=[
            PlannedItemOut(
                custom_id=item.source.custom_id,
                profile=_reference(item),
                points=item.grid.num_points,
                points_failing=item.points_failing,
                headline_point=item.headline,
                scenario=item.scenario,
            )
            for item in plan.items
        ],
    )


def submit(connection: Connection, actor: Actor, document: Any, limits: Limits) -> BatchOut:
    """Store a batch for the runner.

    Raises `InvalidError` naming every fault, and `UnavailableError` when too many batches wait.
    """
    waiting = batches.num_unfinished(connection, actor.team_id)
    if waiting >= limits.unfinished_batches:
        raise UnavailableError(
            f"{waiting} batches wait or run already, the limit is {limits.unfinished_batches}",
            problem="queue-full",
        )
    body, plan = _plan(connection, actor, document, limits)
    now = datetime.now(UTC)
    start_on = body.start_on or now.date()
    batch_id = uuid_utils.compat.uuid7()
    items = _item_rows(actor, batch_id, plan, start_on)
    batch = {
        "id": batch_id,
        "team_id": actor.team_id,
        "created_at": now,
        "created_by": actor.name,
        "updated_at": now,
        "version": 1,
        "name": body.name,
        "state": "queued",
        "start_on": start_on,
        "currency": body.currency,
        "metadata": body.metadata,
        "items_total": len(plan.items),
        "points_total": plan.num_points,
        "columns": _stored_columns(items),
        "input_digest": plan.input_digest,
        "model_version": MODEL_VERSION,
        "warnings": msgspec.to_builtins(plan.warnings),
        "queued_at": now,
    }
    batches.insert_batch(connection, batch, items)
    return get(connection, actor, batch_id)


def get(connection: Connection, actor: Actor, batch_id: UUID) -> BatchOut:
    """One batch; raises `NotFoundError`."""
    return _outs(connection, [require_batch(connection, actor, batch_id)])[0]


def require_batch(connection: Connection, actor: Actor, batch_id: UUID) -> Row[Any]:
    """The stored batch; raises `NotFoundError`."""
    row = batches.get_batch(connection, actor.team_id, batch_id)
    if row is None:
        raise NotFoundError(f"there is no batch {batch_id}")
    return row


def require_finished(connection: Connection, actor: Actor, batch_id: UUID) -> Row[Any]:
    """The stored batch if its results can be read; raises `NotFoundError`, `ConflictError`."""
    row = require_batch(connection, actor, batch_id)
    if row.state not in TERMINAL_STATES:
        raise ConflictError(
            f"batch {batch_id} is {row.state}: {row.points_done} of {row.points_total} points "
            "are done; its results can be read when it has ended",
            problem="batch-not-finished",
            errors=[
                FieldFault(
                    pointer="",
                    code="batch_not_finished",
                    detail=f"state is {row.state}",
                )
            ],
        )
    return row


def list_page(
    connection: Connection,
    actor: Actor,
    *,
    page_size: int,
    page_token: str | None,
    state: str | None = None,
    name: str | None = None,
) -> BatchPage:
    """A page of batches, newest first."""
    query = ["batches", state, name]
    before = read_token(page_token, query, tuple[datetime, UUID])
    rows = batches.list_batches(
        connection,
        actor.team_id,
        limit=page_size + 1,
        before=before,
        states=[state] if state else (),
        name=name,
    )
    shown = rows[:page_size]
    more = len(rows) > page_size
    return BatchPage(
        items=_outs(connection, shown),
        next_page_token=make_token(query, (shown[-1].created_at, shown[-1].id)) if more else None,
    )


def cancel(connection: Connection, actor: Actor, batch_id: UUID) -> BatchOut:
    """Stop a batch; finished points are kept. Raises `ConflictError` when it has ended."""
    now = datetime.now(UTC)
    require_batch(connection, actor, batch_id)
    stopped = batches.set_state(
        connection, batch_id, "canceled", expected=("queued",), canceling_at=now, ended_at=now
    ) or batches.set_state(
        connection, batch_id, "canceling", expected=("running",), canceling_at=now
    )
    batch = require_batch(connection, actor, batch_id)
    if not stopped and batch.state not in {"canceling", "canceled"}:
        raise ConflictError(f"batch {batch_id} has already ended: it is {batch.state}")
    return _outs(connection, [batch])[0]


def list_faults(
    connection: Connection, actor: Actor, batch_id: UUID, *, page_size: int, page_token: str | None
) -> PointFaultPage:
    """Failed points in point order, each with its inputs and the rule that it breaks."""
    batch = require_batch(connection, actor, batch_id)
    query = ["faults", str(batch_id)]
    after = read_token(page_token, query, int)
    found: list[PointFaultOut] = []
    for item in batches.list_items(connection, [batch_id]):
        first = item.first_point if after is None else max(item.first_point, after + 1)
        found.extend(_faults_of(item, first, page_size + 1 - len(found)))
        if len(found) > page_size:
            break
    shown = found[:page_size]
    more = len(found) > page_size
    return PointFaultPage(
        errors_total=batch.points_failed,
        items=shown,
        next_page_token=make_token(query, shown[-1].point) if more else None,
    )


def _faults_of(item: Row[Any], first: int, limit: int) -> list[PointFaultOut]:
    """Rules are pure: the reason of a failed point is worked out again, not stored."""
    if item.points_failed == 0 or first >= item.first_point + item.num_points:
        return []
    grid = grid_of(msgspec.json.encode(item.scenario), msgspec.json.encode(item.axes))
    found: list[PointFaultOut] = []
    for start in range(first - item.first_point, grid.num_points, CHUNK_POINTS):
        failure = grid.failures(start, min(start + CHUNK_POINTS, grid.num_points))
        for offset in np.flatnonzero(failure)[: limit - len(found)]:
            point = start + int(offset)
            fault = describe_failure(int(failure[offset]), grid.point_scenario(point))
            found.append(
                PointFaultOut(
                    item=item.position,
                    custom_id=item.custom_id,
                    point=item.first_point + point,
                    inputs=grid.inputs_at(point),
                    pointer=fault.pointer,
                    code=fault.code,
                    detail=fault.detail,
                )
            )
        if len(found) >= limit:
            break
    return found


def _plan(
    connection: Connection, actor: Actor, document: Any, limits: Limits
) -> tuple[BatchIn, Plan]:
    """Decode item by item, so that a fault in one item does not hide those of the others."""
    _check_number_of_items(document, limits)
    faults = list(islice(faults_of(document, BatchIn), MAX_FAULTS))
    if faults:
        plan_items(
            connection,
            actor,
            _sound_items(document, faults),
            limits,
            start_on=datetime.now(UTC).date(),
            known_faults=faults,
        )
    body = msgspec.convert(document, BatchIn)
    return body, plan_items(
        connection,
        actor,
        list(enumerate(body.items)),
        limits,
        start_on=body.start_on or datetime.now(UTC).date(),
        known_faults=_currency_faults(body.currency),
    )


def _sound_items(document: Any, faults: list[FieldFault]) -> list[tuple[int, BatchItemIn]]:
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        return []
    spoilt = {
        fault.pointer.split("/")[2] for fault in faults if fault.pointer.startswith("/items/")
    }
    return [
        (position, msgspec.convert(item, BatchItemIn))
        for position, item in enumerate(items)
        if str(position) not in spoilt and not any(faults_of(item, BatchItemIn))
    ]


def _check_number_of_items(document: Any, limits: Limits) -> None:
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list) and len(items) > limits.items_per_batch:
        detail = f"{len(items)} items, but the limit is {limits.items_per_batch}"
        fault = FieldFault(pointer="/items", code="too_many_items", detail=detail)
        raise InvalidError(detail, errors=[fault])


def _currency_faults(currency: str | None) -> list[FieldFault]:
    if currency is not None:
        try:
            minor_digits(currency)
        except MoneyError as error:
            return [FieldFault(pointer="/currency", code=error.code, detail=str(error))]
    return []


def _reference(item: PlannedItem) -> str | None:
    return f"{item.profile.slug}@{item.profile.revision}" if item.profile else None


def _item_rows(actor: Actor, batch_id: UUID, plan: Plan, start_on: date) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    first = 0
    now = datetime.now(UTC)
    for position, item in enumerate(plan.items):
        profile, source = item.profile, item.source
        key = source.pricing or profile
        rows.append(
            {
                "id": uuid_utils.compat.uuid7(),
                "team_id": actor.team_id,
                "created_at": now,
                "created_by": actor.name,
                "updated_at": now,
                "version": 1,
                "batch_id": batch_id,
                "position": position,
                "custom_id": source.custom_id,
                "name": source.name or source.custom_id,
                "profile_revision_id": profile.revision_id if profile else None,
                "profile_slug": profile.slug if profile else None,
                "profile_revision": profile.revision if profile else None,
                "gpu_type": key.gpu_type if key else None,
                "cost_center": key.cost_center if key else None,
                "start_on": source.start_on or start_on,
                "scenario": item.scenario,
                "axes": source.axes,
                "first_point": first,
                "num_points": item.grid.num_points,
                "headline_point": None if item.headline is None else first + item.headline,
                "input_digest": item.input_digest,
            }
        )
        first += item.grid.num_points
    return rows


def _stored_columns(items: list[dict[str, Any]]) -> list[str]:
    """Input columns of all items, in the order they are first met."""
    names = (
        name
        for item in items
        for name in stored_input_columns(
            msgspec.json.encode(item["scenario"]), msgspec.json.encode(item["axes"])
        )
    )
    return list(dict.fromkeys(names))


def _outs(connection: Connection, rows: list[Row[Any]]) -> list[BatchOut]:
    ids = [row.id for row in rows]
    if not ids:
        return []
    counted = batches.item_counts(connection, ids)
    priced = {row.batch_id: row.rates_as_of for row in pricings.list_pricings(connection, ids)}
    return [_out(row, _counts(row, counted[row.id]), priced.get(row.id)) for row in rows]


def _counts(batch: Row[Any], number: Any) -> Counts:
    untouched, partly = number["untouched"], number["partly"]
    ended = batch.state in TERMINAL_STATES
    return Counts(
        total=batch.items_total,
        pending=0 if ended else untouched,
        running=0 if ended else partly,
        succeeded=number["succeeded"],
        failed=number["failed"] + (untouched + partly if batch.state == "failed" else 0),
        canceled=untouched + partly if batch.state == "canceled" else 0,
    )


def _out(row: Row[Any], counts: Counts, rates_as_of: datetime | None) -> BatchOut:
    return BatchOut(
        id=row.id,
        name=row.name,
        state=cast("BatchState", row.state),
        counts=counts,
        points_done=row.points_done,
        points_failed=row.points_failed,
        points_total=row.points_total,
        start_on=row.start_on,
        currency=row.currency,
        metadata=row.metadata,
        input_digest=row.input_digest,
        model_version=row.model_version,
        warnings=msgspec.convert(row.warnings, list[Notice]),
        failure=row.failure,
        rates_as_of=rates_as_of,
        created_at=row.created_at,
        created_by=row.created_by,
        queued_at=row.queued_at,
        running_at=row.running_at,
        canceling_at=row.canceling_at,
        ended_at=row.ended_at,
        version=row.version,
        results_url=f"/v1/scenario-batches/{row.id}/results",
        errors_url=f"/v1/scenario-batches/{row.id}/errors",
    )
