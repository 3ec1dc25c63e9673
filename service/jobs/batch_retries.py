"""A new batch of those items of an ended one that were not computed; the old one stays as it is."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from service.db import batches
from service.db.engine import Connection, Row
from service.errors import ConflictError, FieldFault, InvalidError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut, Notice, RetryIn
from service.jobs.batch_storage import NewBatch, refuse_full_queue, store_batch
from service.jobs.batches import get, require_finished
from service.jobs.deadlines import deadline_faults
from service.jobs.usage import charge_points
from service.settings import Limits

# What an item of the new batch takes over; the rest follows from its place there.
KEPT = (
    "custom_id",
    "name",
    "profile_revision_id",
    "profile_slug",
    "profile_revision",
    "gpu_type",
    "cost_center",
    "start_on",
    "scenario",
    "axes",
    "num_points",
    "input_digest",
)


def retry(
    connection: Connection, actor: Actor, batch_id: UUID, body: RetryIn, limits: Limits
) -> BatchOut:
    """Store a batch of the unfinished items and those of chunks that could not be computed.

    Profiles are those of the first batch: a retry computes what was asked for. Raises
    `NotFoundError`, `ConflictError` when the batch has not ended or nothing is left to compute,
    `InvalidError` for a deadline that is past, `UnavailableError` when too many batches wait, and
    `OverLimitError` when the team's points of this hour are used up.
    """
    batch = require_finished(connection, actor, batch_id)
    faults = deadline_faults(body.deadline_at, datetime.now(UTC))
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)
    chosen = _to_retry(connection, batch)
    if not chosen:
        raise _nothing_to_retry(batch)
    refuse_full_queue(connection, actor, limits)
    charge_points(connection, actor, sum(item.num_points for item in chosen), limits)
    new = NewBatch(
        name=batch.name,
        start_on=batch.start_on,
        currency=batch.currency,
        metadata=batch.metadata,
        warnings=_moved_warnings(batch, [item.position for item in chosen]),
        priority=batch.priority if body.priority is None else body.priority,
        deadline_at=body.deadline_at,
        retry_of=batch.id,
        chunk_points=batch.chunk_points,
    )
    stored = get(connection, actor, store_batch(connection, actor, new, [*map(_row, chosen)]))
    audit.record(
        connection,
        actor,
        action="retry_batch",
        subject=f"scenario-batch/{stored.id}",
        after=stored,
        detail=f"what batch {batch_id} has left",
    )
    return stored


def _to_retry(connection: Connection, batch: Row[Any]) -> list[Row[Any]]:
    items = batches.list_items(connection, [batch.id])
    chunks = list(batches.chunk_failures(connection, batch.id))
    return [
        item
        for item in items
        if item.points_done < item.num_points or _has_chunk(item, chunks, batch.chunk_points)
    ]


def _has_chunk(item: Row[Any], chunks: Sequence[int], chunk_points: int) -> bool:
    first = item.first_point // chunk_points
    last = (item.first_point + item.num_points - 1) // chunk_points
    return any(first <= chunk <= last for chunk in chunks)


def _row(item: Row[Any]) -> dict[str, Any]:
    headline = item.headline_point
    return {
        **{name: getattr(item, name) for name in KEPT},
        "headline_point": None if headline is None else headline - item.first_point,
    }


def _moved_warnings(batch: Row[Any], positions: Sequence[int]) -> list[Notice]:
    """The warnings of the items at `positions`, pointing at their places in the new batch."""
    places = {f"/items/{old}": f"/items/{new}" for new, old in enumerate(positions)}
    moved = []
    for warning in msgspec.convert(batch.warnings, list[Notice]):
        _, root, position, *rest = warning.pointer.split("/")
        place = places.get(f"/{root}/{position}")
        if place is not None:
            pointer = "/".join([place, *rest])
            moved.append(msgspec.structs.replace(warning, pointer=pointer))
    return moved


def _nothing_to_retry(batch: Row[Any]) -> ConflictError:
    detail = f"batch {batch.id} is {batch.state}: all of its {batch.points_total} points are done"
    if batch.points_failed:
        detail += (
            f", and the {batch.points_failed} that failed break a rule, as they would again: "
            f"/v1/scenario-batches/{batch.id}/errors names the rules"
        )
    fault = FieldFault(pointer="", code="nothing_to_retry", detail=f"state is {batch.state}")
    return ConflictError(detail, problem="nothing-to-retry", errors=[fault])
