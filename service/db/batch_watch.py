"""The little that changes while a batch runs, for many batches by one statement."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, select

from service.db.tables import scenario_batch


class Progress(NamedTuple):
    """How far a batch is; `version` grows with every change of it."""

    batch_id: UUID
    team_id: UUID
    version: int
    state: str


def progress_of(connection: Connection, batch_ids: Sequence[UUID]) -> list[Progress]:
    """The progress of each batch that is there and not deleted."""
    c = scenario_batch.c
    rows = connection.execute(
        select(c.id, c.team_id, c.version, c.state).where(
            c.id.in_(batch_ids), c.deleted_at.is_(None)
        )
    )
    return [Progress(*row) for row in rows]
