"""Stored batches as they are shown."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec

from service.db import batches, chunk_pieces, pricings
from service.db.engine import Connection, Row
from service.jobs.batch_documents import (
    TERMINAL_STATES,
    BatchOut,
    BatchState,
    Counts,
    Notice,
)


def shown_batches(connection: Connection, rows: Sequence[Row[Any]]) -> list[BatchOut]:
    """The documents of the batches, in the order given."""
    ids = [row.id for row in rows]
    if not ids:
        return []
    counted = batches.item_counts(connection, ids)
    # Of the newest pricing, also for those who see no money: it tells of no rate.
    priced = {row.batch_id: row.rates_as_of for row in pricings.list_pricings(connection, ids)}
    kept = chunk_pieces.points_kept(connection, ids)
    return [
        _shown(row, counts_of(row, counted[row.id]), priced.get(row.id), kept.get(row.id, 0))
        for row in rows
    ]


def counts_of(batch: Row[Any], number: Mapping[str, int]) -> Counts:
    """Items by state; whatever the batch's state is, they sum to its items.

    An item that a batch has not finished when it ended was canceled with it (also by a deadline),
    or has failed with it.
    """
    untouched, partly = number["untouched"], number["partly"]
    ended = batch.state in TERMINAL_STATES
    left = untouched + partly if ended else 0
    stopped = batch.state in {"canceled", "expired"}
    return Counts(
        total=batch.items_total,
        pending=0 if ended else untouched,
        running=0 if ended else partly,
        succeeded=number["succeeded"],
        failed=number["failed"] + (0 if stopped else left),
        canceled=left if stopped else 0,
    )


def _shown(
    row: Row[Any], counts: Counts, rates_as_of: datetime | None, points_kept: int
) -> BatchOut:
    address = f"/v1/scenario-batches/{row.id}"
    return BatchOut(
        id=row.id,
        name=row.name,
        state=cast("BatchState", row.state),
        counts=counts,
        # Read after the row: a chunk may have been stored between the two, never counted twice.
        points_done=row.points_done + points_kept,
        points_failed=row.points_failed,
        points_total=row.points_total,
        start_on=row.start_on,
        currency=row.currency,
        metadata=row.metadata,
        priority=row.priority,
        deadline_at=row.deadline_at,
        input_digest=row.input_digest,
        model_version=row.model_version,
        reused_from=row.reused_from,
        retry_of=row.retry_of,
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
        results_url=f"{address}/results",
        errors_url=f"{address}/errors",
        events_url=f"{address}/events",
    )
