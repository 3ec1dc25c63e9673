"""What becomes of old reports: kept for so many days after they were made, or for ever."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from service.db import reports
from service.db.engine import Connection, Database
from service.jobs import audit
from service.jobs.pruning import Pruning, prune

# Reports deleted by one transaction
PER_STEP: Final = 100
ACTION: Final = "prune_reports"


class Expired(Struct, frozen=True, kw_only=True):
    """Reports that are older than the policy keeps them."""

    reports: int
    bytes: int
    oldest_at: datetime | None


NOTHING: Final = Expired(reports=0, bytes=0, oldest_at=None)


def expired(connection: Connection, now: datetime, days: int) -> Expired:
    """What `delete_expired` would delete now; 0 days: nothing, they are kept for ever."""
    if not days:
        return NOTHING
    count, num_bytes, oldest_at = reports.ended_before(connection, now - timedelta(days=days))
    return Expired(reports=count, bytes=num_bytes, oldest_at=oldest_at)


def delete_expired(
    database: Database, now: datetime, days: int, *, command: str = audit.RETENTION
) -> int:
    """Delete reports that ended more than so many days ago, a few at a time; how many.

    Runs keep what the ledger says of them, and batches their results. 0 days: nothing.
    `command` is the program that the audit trail names.
    """
    if not days:
        return 0
    moment = now - timedelta(days=days)
    return prune(
        database,
        Pruning(
            delete=lambda connection: reports.delete_ended_before(
                connection, moment, limit=PER_STEP
            ),
            per_step=PER_STEP,
            command=command,
            action=ACTION,
            subject="reports",
            told=f"reports that ended before {moment.isoformat()}",
        ),
    )
