"""Take deleted and expired exported files away, a few parts in each transaction."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from service.db import export_files
from service.db.engine import Connection, Database
from service.jobs import audit
from service.jobs.export_making import delete_parts
from service.jobs.task import Task


def run(database: Database, export_id: UUID, *, command: str = audit.RETENTION) -> None:
    """Take the file's parts and its row away; may be killed anywhere and called again.

    `command` is the program that the audit trail names where the file's time has come.
    """
    with database.write() as connection:
        # An expired file may not be marked yet: it is marked as sent after it was sent.
        expired = export_files.mark_expired(connection, [export_id], datetime.now(UTC))
        _record(connection, expired, command)
    with database.read() as connection:
        if not export_files.is_deleting(connection, export_id):
            return
    delete_parts(database, export_id)
    with database.write() as connection:
        export_files.delete_file(connection, export_id)


def fail(connection: Connection, export_id: UUID, reason: str) -> None:
    """Keep the reason; the file is hidden already, and a later version tries again."""
    export_files.note_failure(connection, export_id, reason)


def unsent(connection: Connection, version: int) -> Sequence[UUID]:
    """Files that are deleted or have expired."""
    return export_files.list_unsent_removals(connection, version, datetime.now(UTC))


def mark_sent(connection: Connection, ids: Sequence[UUID], version: int) -> None:
    """Delete what has expired for every reader, and note which workflow the files were given."""
    expired = export_files.mark_expired(connection, ids, datetime.now(UTC))
    export_files.mark_removals_sent(connection, ids, version)
    _record(connection, expired, audit.RETENTION)


def _record(connection: Connection, expired: Sequence[tuple[UUID, UUID]], command: str) -> None:
    subjects = [(team_id, f"export/{export_id}") for team_id, export_id in expired]
    audit.record_program(connection, command, action="delete_export", subjects=subjects)


TASK = Task(
    name="export-removal",
    run=run,
    fail=fail,
    unsent=unsent,
    mark_sent=mark_sent,
)
