"""What the engine's queue was given, forgotten: for a start whose queue may be gone or another."""

from sqlalchemy import ColumnElement, Connection, Table, or_, update

from service.db.batches import UNFINISHED
from service.db.tables import export_file, publication, scenario_batch

ENDED_TASKS = ("succeeded", "failed")


def forget_sent(connection: Connection) -> None:
    """Have all unfinished batches and tasks enqueued anew; what is enqueued stays as it is."""
    batches = scenario_batch.c
    _forget(
        connection,
        scenario_batch,
        or_(batches.state.in_(UNFINISHED), batches.deleted_at.is_not(None)),
    )
    _forget(connection, export_file, export_file.c.state.not_in(ENDED_TASKS))
    _forget(connection, publication, publication.c.state.not_in(ENDED_TASKS))


def _forget(connection: Connection, table: Table, is_unfinished: ColumnElement[bool]) -> None:
    sent = table.c.enqueued_version
    connection.execute(
        update(table)
        .where(sent.is_not(None), is_unfinished)
        # Nothing that a reader sees has changed.
        .values(enqueued_version=None, updated_at=table.c.updated_at)
    )
