"""Delete ended batches: hidden at once, their rows taken away in the background, few at a time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from msgspec import Struct

from service.db import deletions
from service.db.deletions import compact, list_marked, mark_sent
from service.db.engine import Connection, Database
from service.errors import ConflictError, PreconditionFailedError
from service.jobs import audit, publications
from service.jobs.actors import Actor
from service.jobs.batch_documents import TERMINAL_STATES
from service.jobs.batches import get
from service.jobs.retention_needs import needed_batches, schedule_naming
from service.jobs.task import Task

__all__ = [
    "TASK",
    "Expired",
    "compact",
    "count_expired",
    "delete_batch",
    "fail",
    "free_mb",
    "list_left",
    "mark_expired",
    "run",
]

DELETE = "delete_batch"
# SQLite has one writer, and others look for their turn every few milliseconds: they must find
# the lock free far more often than not.
PAUSE_RATIO = 4.0
MIN_PAUSE_S = 0.002


def delete_batch(
    connection: Connection, actor: Actor, batch_id: UUID, *, expected_version: int
) -> None:
    """Delete an ended batch: from this transaction on it is not there for any reader.

    Raises `NotFoundError`, `ConflictError` for a batch that has not ended or is the fixed baseline
    of a schedule, and `PreconditionFailedError` when it has changed since the caller read it.
    """
    batch = get(connection, actor, batch_id)
    if batch.state not in TERMINAL_STATES:
        raise ConflictError(
            f"batch {batch_id} is {batch.state}: only a batch that has ended can be deleted; "
            "cancel it first"
        )
    now = datetime.now(UTC)
    schedule = schedule_naming(connection, batch_id, now)
    if schedule is not None:
        raise ConflictError(
            f"batch {batch_id} is what all runs of the schedule {schedule!r} are compared with: "
            "change its `baseline` first"
        )
    if not deletions.mark_deleted(connection, batch_id, version=expected_version, now=now):
        # It may have been changed or deleted since it was read above.
        current = get(connection, actor, batch_id)
        raise PreconditionFailedError(
            f"batch {batch_id} is at version {current.version}, not {expected_version}"
        )
    audit.record(
        connection, actor, action=DELETE, subject=f"scenario-batch/{batch_id}", before=batch
    )


def mark_expired(
    connection: Connection, now: datetime, retention_days: int, *, command: str = audit.RETENTION
) -> int:
    """Delete, as `delete_batch` does, some batches that ended longer ago; returns how many.

    0 days keeps everything, and what is needed is kept whatever the days. Call it again while it
    returns more than 0. `command` is the program that the audit trail names; each batch has an
    event of its own there, so that for ever it can be said what became of one.
    """
    if retention_days == 0:
        return 0
    moment = now - timedelta(days=retention_days)
    if not deletions.any_ended_before(connection, moment, states=TERMINAL_STATES):
        return 0
    marked = deletions.mark_ended_before(
        connection,
        moment,
        states=TERMINAL_STATES,
        now=now,
        needed=needed_batches(connection),
    )
    subjects = [(team_id, f"scenario-batch/{batch_id}") for team_id, batch_id in marked]
    audit.record_program(connection, command, action=DELETE, subjects=subjects)
    return len(marked)


class Expired(Struct, frozen=True, kw_only=True):
    """How much a retention would delete, and how many batches it keeps because they are needed."""

    num_batches: int
    num_points: int
    num_needed: int


def count_expired(connection: Connection, now: datetime, retention_days: int) -> Expired:
    """What `mark_expired` would delete in all."""
    num_batches, num_points, num_needed = deletions.count_ended_before(
        connection,
        now - timedelta(days=retention_days),
        states=TERMINAL_STATES,
        needed=needed_batches(connection),
    )
    return Expired(num_batches=num_batches, num_points=num_points, num_needed=num_needed)


def list_left(connection: Connection) -> list[UUID]:
    """Deleted batches of which rows are left, whether their deletion runs, waits or failed."""
    return list_marked(connection)


def free_mb(database: Database) -> float:
    """Megabytes of freed pages in the embedded file."""
    with database.read() as connection:
        return deletions.free_bytes(connection) / 1e6


def run(database: Database, batch_id: UUID) -> None:
    """Take the rows of a deleted batch away; may be killed anywhere and called again."""
    with database.read() as connection:
        if not deletions.is_marked(connection, batch_id):
            return
        blocks = deletions.stored_blocks(connection, batch_id)
    publications.withdraw(database, batch_id)
    for block in blocks:
        _until_done(database, partial(deletions.delete_from_block, batch_id=batch_id, block=block))
    _until_done(database, partial(deletions.delete_rows, batch_id=batch_id))


def fail(connection: Connection, batch_id: UUID, reason: str) -> None:
    """Keep why rows are left; the batch stays hidden, `trainard prune` tries again."""
    deletions.note_failure(connection, batch_id, f"deletion: {reason}")


def _until_done(database: Database, step: Callable[[Connection], bool]) -> None:
    """Run the step in short transactions until it says that nothing is left for it."""
    more = True
    while more:
        with database.write() as connection:
            start = time.monotonic()
            more = step(connection)
        time.sleep(max(MIN_PAUSE_S, PAUSE_RATIO * (time.monotonic() - start)))


TASK = Task(
    name="deletion",
    run=run,
    fail=fail,
    unsent=lambda connection, version: list_marked(connection, unsent_to=version),
    mark_sent=mark_sent,
)
