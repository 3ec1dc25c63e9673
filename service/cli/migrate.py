"""`trainard migrate`: the database's tables up to the newest revision, or back."""

import rich_click as click

from service.cli.databases import database_option, settings_with, usable_database, without_password
from service.db import migrate
from service.db.engine import embedded_file
from service.db.migration_losses import losses


@click.command("migrate")
@database_option
@click.option("--revision", default="head", show_default=True, help="Migrate up to this revision.")
@click.option(
    "--down-to",
    metavar="REVISION",
    help="Migrate down instead; `base` removes every table. Loses data: needs `--yes`.",
)
@click.option("--yes", is_flag=True, help="Really migrate down.")
def command(*, database_url: str | None, revision: str, down_to: str | None, yes: bool) -> None:
    """Bring a database to the newest tables.

    `trainard serve` does this at its start; on its own it is for an installation where only one
    person may change tables:

        trainard migrate --database-url postgresql://trainard@db.example/trainard
    """
    url = settings_with(database_url).database_url
    if down_to is not None:
        lost = _losses(url, down_to)
        if not yes:
            raise click.UsageError(f"{lost}; add --yes if that is meant")
        click.echo(f"{lost}.", err=True)
    with usable_database(url):
        before = migrate.current(url)
        if down_to is None:
            migrate.upgrade(url, revision)
        else:
            migrate.downgrade(url, down_to)
        after = migrate.current(url)
    click.echo(f"{without_password(url)}: {_change(before, after)}")


def _losses(url: str, down_to: str) -> str:
    """What the migration takes away, found before it is done."""
    with usable_database(url):
        file = embedded_file(url)
        if file is not None and not file.is_file():
            raise click.ClickException(f"there is no database at {without_password(url)}")
        found = losses(url, down_to)
    what = ", ".join(f"{loss.place} ({loss.number:,})" for loss in found)
    lost = f"what is in them: {what}" if found else "nothing else, they are empty"
    return (
        f"migrating down to {down_to} removes tables or columns of {without_password(url)}, with "
        f"{lost}"
    )


def _change(before: str | None, after: str | None) -> str:
    if before == after:
        return f"already at {after or 'base (no tables)'}, nothing to do"
    newest = " (newest)" if after == migrate.head() else ""
    return f"migrated from {before or 'base (no tables)'} to {after or 'base (no tables)'}{newest}"
