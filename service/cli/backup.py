"""`trainard backup`: the embedded database in one file, while it serves."""

import sys
from pathlib import Path

import rich_click as click

from service.cli.databases import database_option, settings_with, usable_database, without_password
from service.cli.postgres_copies import refuse_postgresql
from service.db.engine import Database
from service.errors import TrainardError
from service.jobs.backups import Backup, back_up


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--force",
    is_flag=True,
    help="Replace FILE when it is there already; never the database, a link or a device.",
)
@database_option
def command(*, file: Path, force: bool, database_url: str | None) -> None:
    """Copy the embedded database into one file while it serves.

    The copy is one moment of the database, whatever is written meanwhile. FILE appears when the
    copy is whole, checked and on the disk. It holds prices and digests of keys: only you may read
    it. The queue (`…-jobs.db`) is not needed, unfinished batches go on without it:

        trainard backup /backup/trainard-$(date +%F).db

    On PostgreSQL it names the commands to use instead.
    """
    url = settings_with(database_url).database_url
    with usable_database(url):
        database = Database(url)
        if not database.is_sqlite:
            refuse_postgresql(url, str(file))
        _require_database(database, url)
        try:
            made = _copy(database, file, force=force)
        finally:
            database.close()
    click.echo(_report(file, made))


def _require_database(database: Database, url: str) -> None:
    """A file that is not there would be made by opening it."""
    if not Path(str(database.url.database)).is_file():
        raise click.ClickException(f"there is no database {without_password(url)}")


def _copy(database: Database, file: Path, *, force: bool) -> Backup:
    with click.progressbar(length=1, label="copying", file=sys.stderr) as bar:

        def show(left: int, total: int) -> None:
            if bar.length != total:
                bar.length = total
            bar.update(total - left - bar.pos)

        try:
            return back_up(database, file, overwrite=force, progress=show)
        except TrainardError as error:
            hint = "; --force replaces it" if error.problem == "conflict" else ""
            raise click.ClickException(f"{error.detail}{hint}") from error
        except OSError as error:
            raise click.ClickException(f"{file}: {error.strerror or error}") from error


def _report(file: Path, made: Backup) -> str:
    held = made.contents
    return "\n".join(
        [
            f"{file}: {made.num_bytes:,} bytes, whole (integrity and references checked)",
            f"  revision {held.revision}, {held.counts}",
            f"  SHA-256 {made.sha256}",
            "Back again, with the service stopped:",
            f"  trainard restore {file} --sha256 {made.sha256}",
        ]
    )
