"""Schedules as they are found by who looks at their runs, which stay when a schedule is deleted."""

from typing import Any

from service.db import schedules as schedule_rows
from service.db.engine import Connection, Row
from service.jobs import schedules
from service.jobs.actors import Actor


def require_kept(connection: Connection, actor: Actor, key: str) -> Row[Any]:
    """The schedule of this id or slug; one that was deleted by its id.

    Raises `NotFoundError`.
    """
    wanted = schedules.id_in(key)
    deleted = None
    if wanted is not None:
        deleted = schedule_rows.get_deleted(connection, actor.team_id, wanted)
    return deleted or schedules.require(connection, actor, key)
