"""How long everything is kept, what would go now, and letting go of reports and deliveries.

Results are kept for ever unless the installation says otherwise; the files made of them expire.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from service.db import deliveries, retention
from service.db.engine import Connection, Database
from service.db.retention import Measure, OldBatches
from service.jobs import audit, drop_expiry, export_removal, report_retention
from service.jobs.batch_documents import TERMINAL_STATES
from service.jobs.pruning import Pruning, prune
from service.jobs.retention_needs import needed_batches
from service.settings import Settings

Kept = Literal["batches", "exports", "reports", "deliveries", "delivery_files", "audit_events"]

PER_STEP: Final = 500
ACTION: Final = "prune_deliveries"
# What goes by itself is up to so much older: else each minute of a busy service would add an event
# to the audit trail to say that some went.
GRACE: Final = timedelta(days=1)
NOTHING: Final = Measure(count=0, bytes=0, oldest_at=None)


class RetentionPolicy(Struct, frozen=True, kw_only=True):
    """How long one kind of thing is kept, and what is past its time now."""

    kept: Kept
    setting: Annotated[
        str | None,
        Meta(description="The environment variable; null where each thing has its own time."),
    ]
    days: Annotated[
        int | None, Meta(description="0: kept for ever; null: each thing has its own time.")
    ]
    rule: str
    expired: Annotated[
        int, Meta(description="How many would go now: those of the team; in the CLI of all teams.")
    ]
    expired_bytes: Annotated[
        int, Meta(description="Of their contents; 0 where they have none of their own.")
    ]
    oldest_at: datetime | None
    of_schedules: Annotated[
        int | None, Meta(description="Of the batches, those that belong to runs of schedules.")
    ] = None
    needed: Annotated[
        int | None,
        Meta(
            description="Batches past their time that are kept, beside those that would go: the "
            "next run of a schedule is compared with them, or a run or a report that has not ended "
            "reads them."
        ),
    ] = None


class RetentionOut(Struct, frozen=True, kw_only=True):
    """All policies, with what is past its time now. Nothing was deleted to find out."""

    as_of: datetime
    policies: list[RetentionPolicy]


def policies(
    connection: Connection, settings: Settings, now: datetime, team_id: UUID | None = None
) -> RetentionOut:
    """What each policy would delete now, of one team or of all."""

    def old(days: int, measure: Callable[[Connection, datetime, UUID | None], Measure]) -> Measure:
        return measure(connection, now - timedelta(days=days), team_id) if days else NOTHING

    batches = OldBatches(measure=NOTHING, of_schedules=0, needed=0)
    if settings.retention_days:
        before = now - timedelta(days=settings.retention_days)
        needed = needed_batches(connection)
        batches = retention.old_batches(connection, before, TERMINAL_STATES, team_id, needed)
    found = [
        _policy(
            "batches",
            "TRAINARD_RETENTION_DAYS",
            settings.retention_days,
            "Batches and their results, counted from when they ended; those of schedules too, "
            "whose runs and reports stay readable. Those that a schedule compares its next run "
            "with, or that an unfinished run or report reads, are kept.",
            batches.measure,
            of_batches=batches,
        ),
        _policy(
            "exports",
            None,
            None,
            "Exported files, until their own `expires_at`.",
            retention.expired_exports(connection, now, team_id),
        ),
        _policy(
            "reports",
            "TRAINARD_REPORT_RETENTION_DAYS",
            settings.report_retention_days,
            "Loss reports and the causes in histories, counted from when they were made.",
            old(settings.report_retention_days, retention.old_reports),
        ),
        _policy(
            "deliveries",
            "TRAINARD_DELIVERY_RETENTION_DAYS",
            settings.delivery_retention_days,
            "The log of deliveries that have ended, with their attempts.",
            old(settings.delivery_retention_days, retention.old_deliveries),
        ),
        _policy(
            "delivery_files",
            None,
            None,
            "Files that were written into folders, for the `keep_days` of their delivery.",
            _files(connection, now, team_id),
        ),
        _policy(
            "audit_events",
            "TRAINARD_AUDIT_RETENTION_DAYS",
            settings.audit_retention_days,
            "Events of the audit trail; `trainard audit prune` removes them by hand.",
            old(settings.audit_retention_days, retention.old_events),
        ),
    ]
    return RetentionOut(as_of=now, policies=found)


def apply(database: Database, settings: Settings, now: datetime) -> None:
    """Let go of old reports and deliveries and of files in folders, as the settings say."""
    days = settings.report_retention_days
    with database.read() as connection:
        late_reports = report_retention.expired(connection, now - GRACE, days).reports
        late_deliveries = _late_deliveries(connection, settings, now)
    if late_reports:
        report_retention.delete_expired(database, now, days)
    if late_deliveries:
        delete_deliveries(database, now, settings.delivery_retention_days)
    if settings.deliveries.folder:
        drop_expiry.remove_expired(database, settings.deliveries.folder, now)


def delete_deliveries(
    database: Database, now: datetime, days: int, *, command: str = audit.RETENTION
) -> int:
    """Delete ended deliveries that were made more than so many days ago; how many. 0 days: none."""
    if not days:
        return 0
    before = now - timedelta(days=days)
    return prune(
        database,
        Pruning(
            delete=lambda connection: deliveries.delete_old(connection, before, limit=PER_STEP),
            per_step=PER_STEP,
            command=command,
            action=ACTION,
            subject="deliveries",
            told=f"deliveries that were made before {before.isoformat()}",
        ),
    )


def delete_exports(database: Database, now: datetime, *, command: str = audit.RETENTION) -> int:
    """Take away the exported files whose time has come; how many."""
    with database.read() as connection:
        expired = retention.list_expired_exports(connection, now)
    for export_id in expired:
        export_removal.run(database, export_id, command=command)
    return len(expired)


def _late_deliveries(connection: Connection, settings: Settings, now: datetime) -> int:
    days = settings.delivery_retention_days
    if not days:
        return 0
    return deliveries.count_old(connection, now - timedelta(days=days) - GRACE)[0]


def _files(connection: Connection, now: datetime, team_id: UUID | None) -> Measure:
    rows = retention.expired_files(connection, now, team_id)
    files = [file for row in rows for file in (row.outcome or {}).get("files", [])]
    return Measure(
        count=len(files),
        bytes=sum(file["bytes"] for file in files),
        oldest_at=min((row.ended_at for row in rows if row.ended_at is not None), default=None),
    )


def _policy(
    kept: Kept,
    setting: str | None,
    days: int | None,
    rule: str,
    measure: Measure,
    *,
    of_batches: OldBatches | None = None,
) -> RetentionPolicy:
    return RetentionPolicy(
        kept=kept,
        setting=setting,
        days=days,
        rule=rule,
        expired=measure.count,
        expired_bytes=measure.bytes,
        oldest_at=measure.oldest_at,
        of_schedules=None if of_batches is None else of_batches.of_schedules,
        needed=None if of_batches is None else of_batches.needed,
    )
