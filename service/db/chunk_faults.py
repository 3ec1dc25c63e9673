"""Chunks of a batch in which points failed, as the ledger tells."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, select

from service.db.tables import chunk_ledger


def faulty_chunks(
    connection: Connection, batch_id: UUID, *, first: int, limit: int
) -> list[Row[Any]]:
    """Number and `failure` of the chunks from `first` on that have a failed point, in order."""
    c = chunk_ledger.c
    return list(
        connection.execute(
            select(c.chunk, c.failure)
            .where(c.batch_id == batch_id, c.chunk >= first, c.points_failed > 0)
            .order_by(c.chunk)
            .limit(limit)
        )
    )
