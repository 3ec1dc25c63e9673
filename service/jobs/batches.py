"""Use cases of scenario batches: check, submit, read, list, cancel."""

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from service.db import batches, chunk_pieces
from service.db.engine import Connection, Row
from service.errors import ConflictError, FieldFault, NotFoundError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.batch_documents import (
    TERMINAL_STATES,
    BatchIn,
    BatchOut,
    BatchPage,
    BatchPlanOut,
    PlannedItemOut,
)
from service.jobs.batch_plans import plan_batch
from service.jobs.batch_storage import NewBatch, refuse_full_queue, reusable_for, store_batch
from service.jobs.batch_views import shown_batches
from service.jobs.page_tokens import make_token, read_token
from service.jobs.planning import Plan, PlannedItem
from service.jobs.usage import charge_points, points_left, refuse_over_quota
from service.settings import Limits

# What the estimate is for: the cores of the machine that the costs of points were measured on.
NUM_CORES = 2


def check(connection: Connection, actor: Actor, document: Any, limits: Limits) -> BatchPlanOut:
    """What `submit` would do, without storing anything; raises `InvalidError` as it does."""
    body, plan = plan_batch(connection, actor, document, limits)
    refuse_over_quota(actor, plan.num_points, limits)
    rows = [_item_row(item, datetime.now(UTC).date()) for item in plan.items]
    return BatchPlanOut(
        points_total=plan.num_points,
        points_failing=sum(item.points_failing for item in plan.items),
        draws_total=sum(item.work.draws for item in plan.items),
        points_left=points_left(connection, actor, limits),
        estimated_s=round(0.1 + plan.core_s / NUM_CORES, 1),
        input_digest=plan.input_digest,
        reused_from=reusable_for(connection, actor, rows) if body.reuse else None,
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
    """Store a batch for the engine.

    Raises `InvalidError` naming every fault, `UnavailableError` when too many batches wait, and
    `OverLimitError` when the team's points of this hour are used up.
    """
    refuse_full_queue(connection, actor, limits)
    body, plan = plan_batch(connection, actor, document, limits)
    return submit_planned(connection, actor, body, plan, limits)


def submit_planned(
    connection: Connection, actor: Actor, body: BatchIn, plan: Plan, limits: Limits
) -> BatchOut:
    """Store a batch that was planned before; raises what `charge_points` raises."""
    charge_points(connection, actor, plan.num_points, limits)
    start_on = body.start_on or datetime.now(UTC).date()
    new = NewBatch(
        name=body.name,
        start_on=start_on,
        currency=body.currency,
        metadata=body.metadata,
        warnings=plan.warnings,
        priority=body.priority,
        deadline_at=body.deadline_at,
        reuse=body.reuse,
        chunk_points=plan.chunk_points,
    )
    items = [_item_row(item, start_on) for item in plan.items]
    batch = get(connection, actor, store_batch(connection, actor, new, items))
    audit.record(
        connection, actor, action="submit_batch", subject=f"scenario-batch/{batch.id}", after=batch
    )
    return batch


def get(connection: Connection, actor: Actor, batch_id: UUID) -> BatchOut:
    """One batch; raises `NotFoundError`."""
    return shown_batches(connection, [require_batch(connection, actor, batch_id)])[0]


def require_batch(connection: Connection, actor: Actor, batch_id: UUID) -> Row[Any]:
    """The stored batch; raises `NotFoundError`."""
    row = batches.get_batch(connection, actor.team_id, batch_id)
    if row is None:
        raise no_batch(batch_id)
    return row


def no_batch(batch_id: UUID) -> NotFoundError:
    """The team has no such batch, or has it no more."""
    return NotFoundError(f"there is no batch {batch_id}")


def require_finished(connection: Connection, actor: Actor, batch_id: UUID) -> Row[Any]:
    """The stored batch if its results can be read; raises `NotFoundError`, `ConflictError`."""
    row = require_batch(connection, actor, batch_id)
    if row.state not in TERMINAL_STATES:
        done = row.points_done + chunk_pieces.points_kept(connection, [batch_id]).get(batch_id, 0)
        raise ConflictError(
            f"batch {batch_id} is {row.state}: {done} of {row.points_total} points "
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
    name_contains: str | None = None,
) -> BatchPage:
    """A page of batches, newest first."""
    query = ["batches", state, name, name_contains]
    before = read_token(page_token, query, tuple[datetime, UUID])
    rows = batches.list_batches(
        connection,
        actor.team_id,
        limit=page_size + 1,
        before=before,
        states=[state] if state else (),
        name=name,
        name_contains=name_contains,
    )
    shown = rows[:page_size]
    more = len(rows) > page_size
    return BatchPage(
        items=shown_batches(connection, shown),
        next_page_token=make_token(query, (shown[-1].created_at, shown[-1].id)) if more else None,
    )


def cancel(connection: Connection, actor: Actor, batch_id: UUID) -> BatchOut:
    """Stop a batch; finished points are kept. Raises `ConflictError` when it has ended."""
    now = datetime.now(UTC)
    before = get(connection, actor, batch_id)
    stopped = batches.set_state(
        connection, batch_id, "canceled", expected=("queued",), canceling_at=now, ended_at=now
    ) or batches.set_state(
        connection, batch_id, "canceling", expected=("running",), canceling_at=now
    )
    batch = require_batch(connection, actor, batch_id)
    if not stopped and batch.state not in {"canceling", "canceled"}:
        raise ConflictError(f"batch {batch_id} has already ended: it is {batch.state}")
    canceled = shown_batches(connection, [batch])[0]
    if stopped:
        audit.record(
            connection,
            actor,
            action="cancel_batch",
            subject=f"scenario-batch/{batch_id}",
            before=before,
            after=canceled,
        )
    return canceled


def _reference(item: PlannedItem) -> str | None:
    return f"{item.profile.slug}@{item.profile.revision}" if item.profile else None


def _item_row(item: PlannedItem, start_on: date) -> dict[str, Any]:
    profile, source = item.profile, item.source
    key = source.pricing or profile
    return {
        "custom_id": source.custom_id,
        "name": source.name or source.custom_id,
        "profile_revision_id": profile.revision_id if profile else None,
        "profile_slug": profile.slug if profile else None,
        "profile_revision": profile.revision if profile else None,
        "gpu_type": key.gpu_type if key else None,
        "cost_center": key.cost_center if key else None,
        "start_on": source.start_on or start_on,
        "scenario": item.scenario,
        "axes": item.axes,
        "num_points": item.grid.num_points,
        "headline_point": item.headline,
        "input_digest": item.input_digest,
    }
