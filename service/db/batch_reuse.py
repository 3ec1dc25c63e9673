"""Ended batches whose stored results another batch with the same inputs may take over."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, exists, select

from service.db.tables import batch_item, chunk_ledger, scenario_batch


class Inputs(NamedTuple):
    """What decides the stored numbers of a batch."""

    input_digest: str
    model_version: str
    points_total: int


def computed_batches(
    connection: Connection, team_id: UUID, inputs: Inputs, *, limit: int
) -> list[Row[Any]]:
    """Batches of the team with equal inputs, every chunk of them computed, newest end first."""
    c, ledger = scenario_batch.c, chunk_ledger.c
    uncomputed = exists().where(ledger.batch_id == c.id, ledger.failure.is_not(None))
    return list(
        connection.execute(
            select(c.id, c.columns)
            .where(
                c.team_id == team_id,
                c.input_digest == inputs.input_digest,
                c.model_version == inputs.model_version,
                c.points_total == inputs.points_total,
                c.points_done == inputs.points_total,
                c.state.in_(("succeeded", "partially_failed")),
                c.deleted_at.is_(None),
                ~uncomputed,
            )
            .order_by(c.ended_at.desc(), c.id.desc())
            .limit(limit)
        )
    )


def item_shapes(connection: Connection, batch_id: UUID) -> Sequence[tuple[str, int]]:
    """Input digest and number of points of each item, in order."""
    c = batch_item.c
    rows = connection.execute(
        select(c.input_digest, c.num_points).where(c.batch_id == batch_id).order_by(c.position)
    )
    return [(row.input_digest, row.num_points) for row in rows]
