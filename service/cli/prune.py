"""`trainard prune`: delete what is old, and take away what is left of deleted batches."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import rich_click as click

from service.cli.databases import (
    database_option,
    existing_database,
    settings_with,
    without_password,
)
from service.db.engine import Database
from service.jobs import deletions, drop_expiry, report_retention, retention
from service.jobs.audit_sealing import seal
from service.jobs.retention import RetentionPolicy
from service.reports.tables import Heading, text_table
from service.settings import Settings

SHOWN_MB = 0.1
BYTES_PER_MB = 1_000_000
COMMAND = "prune"
# What has a time of its own, whatever the days
TIMED = ("exports", "delivery-files")
WHAT = ("batches", "reports", "deliveries", *TIMED)


@click.command("prune")
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(min=1, max=100_000),
    metavar="DAYS",
    help="Delete what ended more than so many days ago.",
)
@click.option(
    "--what",
    type=click.Choice(WHAT),
    multiple=True,
    default=("batches",),
    show_default=True,
    help="What is deleted; repeatable. Exports and delivery files have their own time.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Count and delete nothing; without --older-than show what every policy would delete.",
)
@click.option(
    "--compact",
    is_flag=True,
    help="SQLite: then give the freed pages back to the disk. It rewrites the file and makes all "
    "writers wait, so stop the service first.",
)
@database_option
def command(
    *,
    days: int | None,
    what: tuple[str, ...],
    dry_run: bool,
    compact: bool,
    database_url: str | None,
) -> None:
    """Delete old batches.

    They are hidden at once and their rows are taken away a few at a time, so a running service is
    not held up. What a killed or failed deletion left is taken away too. Batches that wait or run
    are never touched:

        trainard prune --older-than 400 --dry-run

    Reports, the log of deliveries, expired exports and files in folders go likewise:

        trainard prune --what reports --what deliveries --older-than 90

    Without --older-than a dry run shows the policies of the environment
    (`TRAINARD_RETENTION_DAYS=400` and the like), by which a service deletes by itself.
    """
    settings = settings_with(database_url)
    url = settings.database_url
    if days is None and not dry_run and set(what) - set(TIMED):
        raise click.UsageError("give --older-than DAYS, or --dry-run to see the policies")
    with existing_database(url) as database:
        if days is None and dry_run:
            _show_policies(database, settings)
            return
        if "batches" in what and days is not None:
            _prune(database, days, dry_run=dry_run)
        _prune_others(database, settings, days or 0, what=what, dry_run=dry_run)
        seal(database)
        if not dry_run:
            _free(database, compact=compact)
    if not dry_run:
        click.echo(f"done: {without_password(url)}")


def _show_policies(database: Database, settings: Settings) -> None:
    with database.read() as connection:
        found = retention.policies(connection, settings, datetime.now(UTC))
    headings = [
        Heading("what", words=True),
        Heading("kept for", words=True),
        Heading("past it"),
        Heading("MB"),
        Heading("oldest", words=True),
    ]
    click.echo(text_table(headings, [_cells(policy) for policy in found.policies]))
    _tell_needed(sum(policy.needed or 0 for policy in found.policies))
    click.echo("dry run: nothing is deleted")


def _tell_needed(number: int) -> None:
    if number:
        click.echo(
            f"{number} old batches are kept: the next run of a schedule is compared with them, "
            "or an unfinished run or report reads them"
        )


def _cells(policy: RetentionPolicy) -> list[str]:
    kept = "its own time" if policy.days is None else f"{policy.days} days"
    return [
        policy.kept.replace("_", " "),
        "ever" if policy.days == 0 else kept,
        f"{policy.expired:,}",
        f"{policy.expired_bytes / BYTES_PER_MB:,.1f}",
        "" if policy.oldest_at is None else policy.oldest_at.date().isoformat(),
    ]


def _prune_others(
    database: Database, settings: Settings, days: int, *, what: Sequence[str], dry_run: bool
) -> None:
    """Count, and unless it is a dry run delete, all but batches."""
    if set(what) == {"batches"}:
        return
    now = datetime.now(UTC)
    wanted = Settings(
        database_url=settings.database_url,
        deliveries=settings.deliveries,
        report_retention_days=days,
        delivery_retention_days=days,
    )
    with database.read() as connection:
        found = retention.policies(connection, wanted, now).policies
    for policy in found:
        name = policy.kept.replace("_", "-")
        if name in what and name != "batches":
            megabytes = policy.expired_bytes / BYTES_PER_MB
            click.echo(f"{policy.expired} {policy.kept.replace('_', ' ')}, {megabytes:.1f} MB")
    if dry_run:
        click.echo("dry run: nothing is deleted")
        return
    if "reports" in what:
        report_retention.delete_expired(database, now, days, command=COMMAND)
    if "deliveries" in what:
        retention.delete_deliveries(database, now, days, command=COMMAND)
    if "exports" in what:
        retention.delete_exports(database, now, command=COMMAND)
    if "delivery-files" in what:
        while drop_expiry.remove_expired(
            database, settings.deliveries.folder, now, program=COMMAND
        ):
            pass


def _prune(database: Database, days: int, *, dry_run: bool) -> None:
    now = datetime.now(UTC)
    with database.read() as connection:
        old = deletions.count_expired(connection, now, days)
        left = deletions.list_left(connection)
    ended_before = (now - timedelta(days=days)).date().isoformat()
    click.echo(
        f"{old.num_batches} batches with {old.num_points} points ended before {ended_before}"
    )
    _tell_needed(old.num_needed)
    if left:
        click.echo(f"{len(left)} deleted batches have rows left")
    if dry_run:
        click.echo("dry run: nothing is deleted")
        return
    _delete(database, now, days)


def _free(database: Database, *, compact: bool) -> None:
    """Whatever was deleted: its pages are free for what comes next, or for the disk."""
    if compact:
        deletions.compact(database)
    free_mb = deletions.free_mb(database)
    if free_mb >= SHOWN_MB:
        click.echo(f"{free_mb:.1f} MB of the file are free for the next batches")


def _delete(database: Database, now: datetime, days: int) -> None:
    marked = 1
    while marked:
        with database.write() as connection:
            marked = deletions.mark_expired(connection, now, days, command="prune")
    with database.read() as connection:
        left = deletions.list_left(connection)
    with click.progressbar(left, label="deleting", show_pos=True) as batches:
        for batch_id in batches:
            deletions.run(database, batch_id)
