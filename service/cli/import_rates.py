"""`trainard import-rates`: dated GPU-hour rates from a CSV file, all of them or none."""

from typing import BinaryIO

import rich_click as click

from service.cli.databases import database_option, settings_with, usable_database, without_password
from service.cli.faults import refuse
from service.db import migrate
from service.db.engine import Database
from service.errors import FieldFault, TrainardError
from service.jobs.actors import program
from service.jobs.audit_sealing import seal
from service.jobs.rate_documents import ImportedRate, ImportOut
from service.jobs.rate_imports import import_rates
from service.reports.tables import Heading, text_table

OPEN_END = "no end"


@click.command("import-rates")
@click.argument("file", type=click.File("rb"), metavar="FILE.csv")
@database_option
@click.option("--dry-run", is_flag=True, help="Check everything and store nothing.")
def command(*, file: BinaryIO, database_url: str | None, dry_run: bool) -> None:
    """Store dated GPU-hour rates from a CSV file.

    One line a rate, all of them or none; `-` reads standard input. The first line names the columns
    (cost_center and valid_until may be empty or left out; valid_until is the first day on which the
    rate is valid no longer):

        gpu_type,cost_center,currency,price_per_gpu_hour,valid_from,valid_until,source

        H100-SXM,,EUR,1.00,2026-10-01,,example amount

    Exit code 2 and every bad line by its number when the file cannot be used:

        trainard import-rates rates.csv --dry-run
    """
    source, text = file.name, _text(file)
    url = settings_with(database_url).database_url
    with usable_database(url):
        migrate.upgrade(url)
        database = Database(url)
        try:
            imported = _import(database, text, dry_run=dry_run)
            seal(database)
        except TrainardError as error:
            refuse(source, error.errors or [_whole(error)])
        finally:
            database.close()
    click.echo(_table(imported))
    done = "can be stored" if dry_run else f"stored in {without_password(url)}"
    click.echo(f"{imported.num_rates} rates {done}")


def _import(database: Database, text: str, *, dry_run: bool) -> ImportOut:
    with database.read() if dry_run else database.write() as connection:
        return import_rates(connection, program("import-rates"), text, dry_run=dry_run)


def _text(file: BinaryIO) -> str:
    try:
        return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"not UTF-8: {error.reason} at byte {error.start}"
        refuse(file.name, [FieldFault(pointer="", code="malformed_text", detail=detail)])


def _whole(error: TrainardError) -> FieldFault:
    return FieldFault(pointer="", code=error.problem, detail=error.detail)


def _table(imported: ImportOut) -> str:
    words = [Heading(title, words=True) for title in ("gpu_type", "cost_center")]
    headings = [Heading("line"), *words, *map(Heading, ("price", "from", "until"))]
    return text_table(headings, [_cells(rate) for rate in imported.items])


def _cells(rate: ImportedRate) -> list[str]:
    price = rate.price_per_gpu_hour
    return [
        str(rate.line),
        rate.gpu_type,
        rate.cost_center or "any",
        f"{price.amount} {price.currency}",
        rate.valid_from.isoformat(),
        rate.valid_until.isoformat() if rate.valid_until else OPEN_END,
    ]
