"""Files of directory deliveries whose time is over: which they are, and their removal.

Only what the log says that we have written is removed, and only while it is still the same.
"""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

from service.db import deliveries as rows
from service.db.engine import Connection, Database, Row
from service.jobs import audit
from service.jobs.drops import DropError, DroppedFile, remove

AT_ONCE: Final = 100
MAX_LISTED: Final = 10_000
PROGRAM: Final = "retention"

log = structlog.get_logger()


class ExpiredFiles(Struct, frozen=True, kw_only=True):
    """What one delivery has written and is to be removed."""

    delivery_id: UUID
    team_id: UUID
    folder: str
    names: list[str]
    # None where they may hold money: lengths could be tried out
    num_bytes: int | None
    expires_at: datetime


def list_expired(connection: Connection, now: datetime) -> list[ExpiredFiles]:
    """What would be removed now, the longest due first; nothing is looked up on the disk."""
    return [
        ExpiredFiles(
            delivery_id=row.id,
            team_id=row.team_id,
            folder=f"{row.outcome['team']}/{row.outcome['folder']}",
            names=[file.name for file in _files(row)],
            num_bytes=None if row.include_costs else sum(file.bytes for file in _files(row)),
            expires_at=row.files_expire_at,
        )
        for row in rows.list_with_old_files(connection, now, limit=MAX_LISTED)
    ]


def remove_expired(database: Database, root: str, now: datetime, *, program: str = PROGRAM) -> int:
    """Remove them; of how many deliveries, some hundred at a time.

    What cannot be removed is left for the next time, and holds up nothing of other folders.
    """
    if not root:
        return 0
    done: list[Row[Any]] = []
    barred: set[tuple[str, str]] = set()
    after = None
    while len(done) < AT_ONCE:
        with database.read() as connection:
            due = rows.list_with_old_files(connection, now, limit=AT_ONCE, after=after)
        done += [row for row in due if _remove(root, row, barred)]
        if len(due) < AT_ONCE:
            break
        after = due[-1].files_expire_at, due[-1].id
    if done:
        with database.write() as connection:
            for row in done:
                rows.change_delivery(connection, row.id, files_expire_at=None)
            subjects = [(row.team_id, f"delivery/{row.id}") for row in done]
            audit.record_program(
                connection, program, action="remove_delivered_files", subjects=subjects
            )
    return len(done)


def _remove(root: str, row: Row[Any], barred: set[tuple[str, str]]) -> bool:
    """Whether its files are gone; a folder that refuses is asked once a time."""
    team, folder = row.outcome["team"], row.outcome["folder"]
    if (team, folder) in barred:
        return False
    try:
        remove(root, folder, _files(row), team=team)
    except DropError as error:
        barred.add((team, folder))
        log.warning("files_not_removed", delivery=str(row.id), reason=str(error))
        return False
    return True


def _files(row: Row[Any]) -> list[DroppedFile]:
    return msgspec.convert(row.outcome["files"], list[DroppedFile])
