"""`trainard restore`: a copy in the place of the embedded database."""

import sys
from pathlib import Path

import rich_click as click

from service.cli.databases import database_option, settings_with, usable_database, without_password
from service.cli.faults import BAD_INPUT
from service.cli.postgres_copies import refuse_postgresql
from service.errors import TrainardError
from service.jobs.restores import KeysLostError, Restored, restore

OPEN = (
    "WARNING: this database has no API key: everybody who reaches the service may read and change "
    "all, prices too. Make one before you serve it: trainard key create --role admin"
)


@click.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--sha256",
    metavar="HEX",
    help="What `trainard backup` printed: finds a changed byte wherever it is, also in a value.",
)
@click.option(
    "--without-keys",
    is_flag=True,
    help="Also when the copy has no API key, but the database has: the service is open then.",
)
@database_option
def command(
    *, file: Path, sha256: str | None, without_keys: bool, database_url: str | None
) -> None:
    """Put a copy in the place of the embedded database.

    Stop the service first. The copy is checked, brought to this version's tables and put in place
    at once: killed at any moment, this leaves the old or the new database whole. What was there
    is kept beside it. Batches that ran when the copy was made go on when the service starts:

        trainard restore /backup/trainard-2026-12-01.db

    On PostgreSQL it names the commands to use instead.
    """
    url = settings_with(database_url).database_url
    if url.startswith("postgres"):
        refuse_postgresql(url, str(file))
    click.echo(f"Checking {file} …", err=True)
    with usable_database(url):
        try:
            done = restore(url, file, sha256=sha256, without_keys=without_keys)
        except KeysLostError as error:
            click.echo(
                f"Error: {error.detail}. Nothing has changed; --without-keys restores it all the "
                "same.",
                err=True,
            )
            sys.exit(BAD_INPUT)
        except TrainardError as error:
            raise click.ClickException(f"{error.detail}. Nothing has changed.") from error
        except OSError as error:
            raise click.ClickException(
                f"{error.filename or file}: {error.strerror or error}"
            ) from error
    click.echo(_report(without_password(url), file, done))
    if not done.contents.num_keys:
        click.echo(OPEN, err=True)


def _report(shown: str, file: Path, done: Restored) -> str:
    held = done.contents
    migrated = "" if held.revision == done.revision else f", migrated from {held.revision}"
    lines = [
        f"{shown} is now {file}",
        f"  revision {done.revision}{migrated}, {held.counts}",
        f"  SHA-256 of the copy {done.sha256}",
    ]
    if done.replaced is not None:
        lines.append(f"What was there is kept: {done.replaced}")
    if held.num_keys:
        lines.append("API keys are those of the copy: revoke again what was revoked since.")
    return "\n".join(lines)
