"""Reports of a running service on the command line: waited for, printed, saved."""

from pathlib import Path
from typing import Final

import httpx
import msgspec
import rich_click as click

from service.cli.asking import until
from service.cli.service_answers import Document, answered
from service.jobs.schedule_documents import Language
from service.reports.language import words
from service.reports.loss_report import LossReport
from service.reports.report_formats import FORMATS
from service.reports.report_text import report_text

REPORTS: Final = "/v1/reports"
ENDED: Final = ("succeeded", "failed")
LANGUAGES: Final = ("en", "fr")
# Of files, and the format that each stands for; the longer before what it ends in itself
ENDINGS: Final = {".focus.csv": "focus"} | {f".{name}": name for name in FORMATS if name != "focus"}
ENDINGS_TEXT: Final = ".html, .json, .csv, .parquet or .focus.csv"

language_option = click.option(
    "--language",
    type=click.Choice(list(LANGUAGES)),
    help="Of what is written; default: that of the report.",
)


def made(client: httpx.Client, report_id: str) -> Document:
    """The report once it has ended; one that has failed ends the program (code 1)."""
    report = until(
        client,
        f"{REPORTS}/{report_id}",
        lambda found: found["state"] in ENDED,
        lambda found: f"Report {found['id']}: {found['state']}",
    )
    if report["state"] == "failed":
        raise click.ClickException(f"report {report_id} could not be made: {report['failure']}")
    return report


def document(client: httpx.Client, report_id: str) -> LossReport:
    """The whole report; without money where the key may not see any."""
    response = client.get(f"{REPORTS}/{report_id}/content", params={"format": "json"})
    answered(response, report_id)
    return msgspec.json.decode(response.content, type=LossReport)


def show(client: httpx.Client, report: Document, language: Language | None) -> LossReport:
    """Print the headline, the change, the budget and where to look; the whole document."""
    found = document(client, report["id"])
    said = language or report["language"]
    click.echo(report_text(found, said).rstrip())
    address = str(client.base_url).rstrip("/")
    spoken = words(said)
    url = f"{address}{report['content_url']}?format=html"
    click.echo("\n" + spoken.say("line_report", id=report["id"], address=url))
    return found


def save(
    client: httpx.Client,
    report_id: str,
    output: Path,
    *,
    chosen: str | None,
    language: Language | None,
    said: Language = "en",
) -> None:
    """Write the report into a file, whole or not at all; the format is what its name ends in.

    `language` is that of the file, None for the report's own; `said` that of what is printed.
    """
    named = chosen or _format_of(output)
    query = {"format": named} | ({"language": language} if language else {})
    response = client.get(f"{REPORTS}/{report_id}/content", params=query)
    if not response.is_success:
        answered(response, report_id)
    part = Path(f"{output}.part")
    part.write_bytes(response.content)
    part.replace(output)
    spoken = words(said)
    size = spoken.numbers.count(len(response.content))
    click.echo(spoken.say("line_saved", file=output, size=size))


def check_output(output: Path, *, chosen: str | None, advice: str = "") -> None:
    """Refuse a file that cannot be written, before anything is computed for it.

    `advice` says what else there is for a name with another ending.
    """
    if not output.parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent}")
    if chosen is None:
        _format_of(output, advice)


def _format_of(output: Path, advice: str = "") -> str:
    for ending, name in ENDINGS.items():
        if output.name.lower().endswith(ending):
            return name
    raise click.UsageError(f"{output} ends in none of {ENDINGS_TEXT}{advice}")
