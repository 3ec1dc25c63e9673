"""`trainard report`: list, show, save and make reports of a running service."""

from pathlib import Path
from typing import get_args
from uuid import UUID

import msgspec
import rich_click as click

from service.cli.report_following import (
    ENDINGS_TEXT,
    REPORTS,
    check_output,
    language_option,
    made,
    save,
    show,
)
from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import post_once, url_option
from service.jobs.schedule_documents import Language, ReportFormat
from service.reports.charts import printable
from service.reports.language import words
from service.reports.tables import Heading, text_table

format_option = click.option(
    "--format",
    "chosen",
    type=click.Choice(list(get_args(ReportFormat))),
    help="Default: what FILE ends in.",
)


@click.group("report")
def command() -> None:
    """List, show, save and make loss reports.

    A report says what a batch loses in 30 days, against the one before, and why that moved. Runs
    of schedules get theirs by themselves:

        trainard report list --schedule nightly

        trainard report save 01a22c62-874f-710f-a9d8-8dc7c6404430 --language fr -o loss.html

    Exit code 0: done; 1: no service, or it refused; 2: what was asked for is faulty.
    """


@command.command("list")
@click.option("--schedule", metavar="SLUG", help="Only of runs of this schedule.")
@click.option("--batch", type=click.UUID, help="Only about this batch.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@url_option
def list_command(*, schedule: str | None, batch: UUID | None, limit: int, url: str) -> None:
    """List reports, newest first."""
    given = {"schedule": schedule, "batch": batch and str(batch), "page_size": str(limit)}
    query = {name: value for name, value in given.items() if value}
    with reached(url) as client:
        page = answered(client.get(REPORTS, params=query), "the list")
    rows = [
        [
            report["id"],
            report["created_at"][:16].replace("T", " "),
            report["state"],
            _slot(report),
            printable(report["name"]),
        ]
        for report in page["items"]
    ]
    headings = [
        Heading(name, words=True) for name in ("report", "asked for", "state", "slot", "name")
    ]
    click.echo(text_table(headings, rows) if rows else "There are no reports.")


def _slot(report: Document) -> str:
    """The local time of the run's slot; empty where it is of no run."""
    local = report.get("local_time")
    return f"{words('en').numbers.local(local)} ({report['zone']})" if local else ""


@command.command("show")
@click.argument("report", type=click.UUID, metavar="REPORT")
@language_option
@url_option
def show_command(*, report: UUID, language: Language | None, url: str) -> None:
    """Print the headline of a report: the loss, the change, the budget, the biggest movers."""
    with reached(url) as client:
        show(client, made(client, str(report)), language)


@command.command("save")
@click.argument("report", type=click.UUID, metavar="REPORT")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help=f"Where it goes, e.g. `loss.html`; it ends in {ENDINGS_TEXT}, or give --format.",
)
@format_option
@language_option
@url_option
def save_command(
    *, report: UUID, output: Path, chosen: str | None, language: Language | None, url: str
) -> None:
    """Save a report as HTML, JSON, CSV, Parquet or FOCUS."""
    check_output(output, chosen=chosen, advice=": give --format")
    with reached(url) as client:
        made(client, str(report))
        said = language or "en"
        save(client, str(report), output, chosen=chosen, language=language, said=said)


@command.command("make")
@click.argument("batch", type=click.UUID, metavar="BATCH")
@click.option("--baseline", type=click.UUID, metavar="BATCH", help="What it is compared with.")
@click.option("--pricing", type=click.IntRange(1), help="Which pricing of the batch.")
@click.option("--baseline-pricing", type=click.IntRange(1), help="Which pricing of the baseline.")
@click.option("--name", help="Default: the name of the batch.")
@language_option
@url_option
def make_command(
    *,
    batch: UUID,
    baseline: UUID | None,
    pricing: int | None,
    baseline_pricing: int | None,
    name: str | None,
    language: Language | None,
    url: str,
) -> None:
    """Have a report made of a batch that has ended, and print its headline."""
    given = {
        "batch_id": str(batch),
        "baseline_batch_id": baseline and str(baseline),
        "pricing": pricing,
        "baseline_pricing": baseline_pricing,
        "name": name,
        "report": {"language": language} if language else None,
    }
    body: Document = {field: value for field, value in given.items() if value is not None}
    with reached(url) as client:
        encoded = msgspec.json.encode(body)
        asked = post_once(client, REPORTS, encoded, source="the report", key=None)
        show(client, made(client, asked["id"]), language)
