"""Pieces of a long chunk, kept from when they are computed until the chunk is stored."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from service.db.tables import chunk_piece, scenario_batch


def list_pieces(connection: Connection, batch_id: UUID, chunk: int) -> list[Row[Any]]:
    """The kept pieces of a chunk, in the order of their points."""
    c = chunk_piece.c
    return list(
        connection.execute(
            select(c.first_point, c.num_points, c.model_version, c.payload)
            .where(c.batch_id == batch_id, c.chunk == chunk)
            .order_by(c.first_point)
            .execution_options(binary_rows=True)
        )
    )


def end_of_pieces(connection: Connection, batch_id: UUID, chunk: int) -> int | None:
    """The point after the last kept one of the chunk; None when nothing of it is kept."""
    c = chunk_piece.c
    end: int | None = connection.scalar(
        select(func.max(c.first_point + c.num_points)).where(
            c.batch_id == batch_id, c.chunk == chunk
        )
    )
    return end


def insert_piece(  # noqa: PLR0913 - one argument a column
    connection: Connection,
    *,
    team_id: UUID,
    batch_id: UUID,
    chunk: int,
    first_point: int,
    num_points: int,
    model_version: str,
    payload: bytes,
    now: datetime,
) -> None:
    """Keep a piece, and move the batch's version on, by which its watchers know of progress."""
    connection.execute(
        insert(chunk_piece).values(
            team_id=team_id,
            created_at=now,
            batch_id=batch_id,
            chunk=chunk,
            first_point=first_point,
            num_points=num_points,
            model_version=model_version,
            payload=payload,
        )
    )
    connection.execute(
        update(scenario_batch)
        .where(scenario_batch.c.id == batch_id)
        .values(version=scenario_batch.c.version + 1)
    )


def delete_pieces(
    connection: Connection,
    batch_id: UUID,
    chunk: int | None = None,
    first_points: Sequence[int] | None = None,
) -> None:
    """Delete the kept pieces of the batch, of one chunk of it, or those that begin there."""
    c = chunk_piece.c
    query = delete(chunk_piece).where(c.batch_id == batch_id)
    if chunk is not None:
        query = query.where(c.chunk == chunk)
    if first_points is not None:
        query = query.where(c.first_point.in_(first_points))
    connection.execute(query)


def points_kept(connection: Connection, batch_ids: Sequence[UUID]) -> dict[UUID, int]:
    """For each of the batches that has kept pieces: how many points those have."""
    c = chunk_piece.c
    rows = connection.execute(
        select(c.batch_id, func.sum(c.num_points).label("points"))
        .where(c.batch_id.in_(batch_ids))
        .group_by(c.batch_id)
    )
    return {row.batch_id: int(row.points) for row in rows}
