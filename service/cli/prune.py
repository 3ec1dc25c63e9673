"""`trainard prune`: delete old batches, and take away what is left of deleted ones."""

from datetime import UTC, datetime, timedelta

import rich_click as click

from service.cli.databases import (
    database_option,
    existing_database,
    settings_with,
    without_password,
)
from service.db.engine import Database
from service.jobs import deletions
from service.jobs.audit_sealing import seal

SHOWN_MB = 0.1


@click.command("prune")
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(min=1, max=100_000),
    metavar="DAYS",
    required=True,
    help="Delete batches that ended more than so many days ago.",
)
@click.option("--dry-run", is_flag=True, help="Count them and delete nothing.")
@click.option(
    "--compact",
    is_flag=True,
    help="SQLite: then give the freed pages back to the disk. It rewrites the file and makes all "
    "writers wait, so stop the service first.",
)
@database_option
def command(*, days: int, dry_run: bool, compact: bool, database_url: str | None) -> None:
    """Delete old batches.

    They are hidden at once and their rows are taken away a few at a time, so a running service is
    not held up. What a killed or failed deletion left is taken away too. Batches that wait or run
    are never touched:

        trainard prune --older-than 400 --dry-run

    A service deletes old batches by itself with `TRAINARD_RETENTION_DAYS=400`.
    """
    url = settings_with(database_url).database_url
    with existing_database(url) as database:
        _prune(database, days, dry_run=dry_run, compact=compact)
        seal(database)
    if not dry_run:
        click.echo(f"done: {without_password(url)}")


def _prune(database: Database, days: int, *, dry_run: bool, compact: bool) -> None:
    now = datetime.now(UTC)
    with database.read() as connection:
        old = deletions.count_expired(connection, now, days)
        left = deletions.list_left(connection)
    ended_before = (now - timedelta(days=days)).date().isoformat()
    click.echo(
        f"{old.num_batches} batches with {old.num_points} points ended before {ended_before}"
    )
    if left:
        click.echo(f"{len(left)} deleted batches have rows left")
    if dry_run:
        click.echo("dry run: nothing is deleted")
        return
    _delete(database, now, days)
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
