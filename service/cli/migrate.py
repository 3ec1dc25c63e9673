"""`trainard migrate`: the database's tables up to the newest revision, or back."""

import rich_click as click

from service.cli.databases import database_option, settings_with, usable_database, without_password
from service.db import migrate


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
    if down_to is not None and not yes:
        raise click.UsageError(
            f"migrating down to {down_to} removes tables or columns with what is in them; "
            "add --yes if that is meant"
        )
    url = settings_with(database_url).database_url
    with usable_database(url):
        before = migrate.current(url)
        if down_to is None:
            migrate.upgrade(url, revision)
        else:
            migrate.downgrade(url, down_to)
        after = migrate.current(url)
    click.echo(f"{without_password(url)}: {_change(before, after)}")


def _change(before: str | None, after: str | None) -> str:
    if before == after:
        return f"already at {after or 'base (no tables)'}, nothing to do"
    newest = " (newest)" if after == migrate.head() else ""
    return f"migrated from {before or 'base (no tables)'} to {after or 'base (no tables)'}{newest}"
