"""Storing a new batch: its row, its items, and which stored results it takes over."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import msgspec
import uuid_utils.compat

from service.db import batches
from service.db.batch_reuse import Inputs
from service.db.engine import Connection
from service.errors import UnavailableError
from service.jobs.actors import Actor
from service.jobs.batch_documents import DEFAULT_PRIORITY, Notice
from service.jobs.batch_reuse import find_reusable
from service.jobs.chunks import CHUNK_POINTS, stored_input_columns
from service.jobs.digests import digest
from service.jobs.reason_sentences import say
from service.jobs.spans import Attributes, span
from service.model import MODEL_VERSION
from service.settings import Limits


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch is made of beside its items."""

    name: str
    start_on: date
    currency: str | None
    metadata: dict[str, str]
    warnings: list[Notice]
    priority: int = DEFAULT_PRIORITY
    deadline_at: datetime | None = None
    reuse: bool = True
    retry_of: UUID | None = None
    chunk_points: int = CHUNK_POINTS


def refuse_full_queue(connection: Connection, actor: Actor, limits: Limits) -> None:
    """Raise `UnavailableError` when as many batches of the team wait or run as are allowed."""
    waiting = batches.num_unfinished(connection, actor.team_id)
    if waiting >= limits.unfinished_batches:
        raise UnavailableError(
            say("queue_full", waiting=waiting, limit=limits.unfinished_batches),
            problem="queue-full",
        )


def store_batch(
    connection: Connection, actor: Actor, new: NewBatch, items: Sequence[dict[str, Any]]
) -> UUID:
    """Write a queued batch and return its id.

    `items` are rows of `batch_item` without what follows from the batch: id, actor, position,
    first point. Their `headline_point` counts from the item's own first point.
    """
    batch_id = uuid_utils.compat.uuid7()
    now = datetime.now(UTC)
    identity = {
        "team_id": actor.team_id,
        "created_at": now,
        "created_by": actor.name,
        "updated_at": now,
        "version": 1,
    }
    rows = _placed([{**item, **identity, "batch_id": batch_id} for item in items])
    inputs = inputs_of(items)
    columns = stored_columns(items)
    reused_from = _reusable(connection, actor, items, inputs, columns) if new.reuse else None
    batch = {
        **identity,
        "id": batch_id,
        "name": new.name,
        "state": "queued",
        "start_on": new.start_on,
        "currency": new.currency,
        "metadata": new.metadata,
        "priority": new.priority,
        "deadline_at": new.deadline_at,
        "items_total": len(rows),
        "points_total": inputs.points_total,
        "columns": columns,
        "input_digest": inputs.input_digest,
        "model_version": inputs.model_version,
        "reused_from": reused_from,
        "retry_of": new.retry_of,
        "warnings": msgspec.to_builtins(new.warnings),
        "queued_at": now,
        "chunk_points": new.chunk_points,
    }
    described: Attributes = {
        "trainard.batch": str(batch_id),
        "trainard.points": inputs.points_total,
    }
    with span("batch.submit", described):
        batches.insert_batch(connection, batch, rows)
    return batch_id


def inputs_of(items: Sequence[dict[str, Any]]) -> Inputs:
    """What decides the numbers of a batch of these items."""
    return Inputs(
        input_digest=digest([[item["custom_id"], item["input_digest"]] for item in items]),
        model_version=MODEL_VERSION,
        points_total=sum(item["num_points"] for item in items),
    )


def reusable_for(
    connection: Connection, actor: Actor, items: Sequence[dict[str, Any]]
) -> UUID | None:
    """The stored batch whose results a batch of these items would take over."""
    return _reusable(connection, actor, items, inputs_of(items), stored_columns(items))


def _reusable(
    connection: Connection,
    actor: Actor,
    items: Sequence[dict[str, Any]],
    inputs: Inputs,
    columns: Sequence[str],
) -> UUID | None:
    shapes = [(item["input_digest"], item["num_points"]) for item in items]
    return find_reusable(connection, actor.team_id, inputs, columns=columns, items=shapes)


def stored_columns(items: Sequence[dict[str, Any]]) -> list[str]:
    """Input columns of all items, in the order they are first met."""
    names = (
        name
        for item in items
        for name in stored_input_columns(
            msgspec.json.encode(item["scenario"]), msgspec.json.encode(item["axes"])
        )
    )
    return list(dict.fromkeys(names))


def _placed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each item its id, its position and its points in the batch."""
    first = 0
    for position, item in enumerate(items):
        headline = item["headline_point"]
        item |= {
            "id": uuid_utils.compat.uuid7(),
            "position": position,
            "first_point": first,
            "headline_point": None if headline is None else first + headline,
        }
        first += item["num_points"]
    return items
