"""What waits and what was done lately: counts over all teams, each read from an index."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select

from service.db.batches import UNFINISHED
from service.db.tables import chunk_ledger, scenario_batch


def unfinished_batches(connection: Connection) -> list[Row[Any]]:
    """For each state that has batches: (state, batches, oldest queued_at, chunks to be recorded).

    A chunk is recorded whole, so that the points left tell how many chunks are left.
    """
    c = scenario_batch.c
    left = (c.points_total - c.points_done + (c.chunk_points - 1)) // c.chunk_points
    query = (
        select(
            c.state,
            func.count().label("num_batches"),
            func.min(c.queued_at).label("oldest_at"),
            func.sum(left).label("num_chunks"),
        )
        .where(c.state.in_(UNFINISHED), c.deleted_at.is_(None))
        .group_by(c.state)
    )
    return list(connection.execute(query))


def points_recorded(connection: Connection, since: datetime) -> int:
    """Points of the chunks that were computed, or copied, and stored since then."""
    c = chunk_ledger.c
    query = select(func.sum(c.num_points)).where(c.created_at >= since, c.failure.is_(None))
    return int(connection.scalar(query) or 0)


def chunks_failed(connection: Connection, since: datetime) -> int:
    """Chunks that could not be computed: since then, and the older ones of unfinished batches."""
    c, batch = chunk_ledger.c, scenario_batch.c
    failed = select(func.count()).select_from(chunk_ledger).where(c.failure.is_not(None))
    lately = connection.scalar(failed.where(c.created_at >= since)) or 0
    # Hardly ever a batch: so the ledger is read by its key, and not at all without one.
    old = select(batch.id).where(batch.state.in_(UNFINISHED), batch.queued_at < since)
    ids = connection.scalars(old).all()
    if not ids:
        return lately
    before = connection.scalar(failed.where(c.created_at < since, c.batch_id.in_(ids)))
    return lately + (before or 0)
