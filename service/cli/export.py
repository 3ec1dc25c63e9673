"""`trainard export`: results or a comparison of a running service as a file on this machine."""

from pathlib import Path
from uuid import UUID

import rich_click as click

from service.cli.export_download import fetch
from service.cli.export_progress import progress_bar
from service.cli.service_answers import Document, reached
from service.cli.submission_options import url_option
from service.reports.digits import whole

FORMATS = {
    "csv": "csv",
    "jsonl": "jsonl",
    "parquet": "parquet",
    "arrows": "arrow",
    "arrow": "arrow",
}


@click.command("export")
@click.argument("batch", type=click.UUID, required=False, metavar="[BATCH]")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Where the file goes; beside it `FILE.sidecar.json` says what it holds.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["csv", "jsonl", "parquet", "arrow"]),
    help="Default: what FILE ends in, else csv.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="PATH:OP:VALUE",
    help="Only such results, e.g. `efficiency_fraction:lt:0.9`; may be repeated.",
)
@click.option("--profile", metavar="SLUG", help="Only results of this cluster profile.")
@click.option("--name", help="Only results of the scenario of this name.")
@click.option("--currency", metavar="CODE", help="Only batches priced in it.")
@click.option("--pricing", type=click.IntRange(1), help="Which pricing of the batches.")
@click.option(
    "--compare",
    type=click.UUID,
    metavar="CANDIDATE",
    help="Export the comparison of BATCH, the past, with this batch, the new.",
)
@click.option(
    "--order-by", metavar="COLUMNS", help="e.g. `-gpu_hours_lost`; up to 1 000 000 rows are sorted."
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@url_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    batch: UUID | None,
    output: Path,
    file_format: str | None,
    where: tuple[str, ...],
    profile: str | None,
    name: str | None,
    currency: str | None,
    pricing: int | None,
    compare: UUID | None,
    order_by: str | None,
    force: bool,
    url: str,
) -> None:
    """Save results of a running service in a file.

    BATCH is the id of a batch; without it the results of all batches are taken. The service makes
    the file, and its SHA-256 is checked when it is here. A download that was broken off goes on
    where it was when the same command is given again:

        trainard export --output results.parquet --where efficiency_fraction:lt:0.9

    Exit code 0: the file is there and whole; 1: no service, or there is no such file to be had;
    2: what was asked for is faulty.
    """
    if not output.parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent}")
    if output.exists() and not force:
        raise click.UsageError(f"{output} is there already: name another, or give --force")
    filters: Document = {
        "where": list(where),
        "profile": profile,
        "name": name,
        "currency": currency,
        "pricing": pricing,
    }
    given = {key: value for key, value in filters.items() if value}
    body: Document = {"format": file_format or FORMATS.get(output.suffix.lstrip("."), "csv")}
    if compare is not None:
        if batch is None or given:
            raise click.UsageError(
                "--compare needs BATCH, to compare with, and takes no filters of results"
            )
        body["comparison"] = {"baseline": str(batch), "candidate": str(compare)}
        body["comparison"] |= {"order_by": order_by} if order_by else {}
    else:
        body |= given
        body |= {"batch": str(batch)} if batch else {}
        body |= {"order_by": order_by} if order_by else {}
    with reached(url) as client, progress_bar() as on_progress:
        export = fetch(client, body, output, on_progress)
    size = f"{whole(export['rows'])} rows, {whole(export['bytes'])} bytes"
    click.echo(f"{output}: {size}, SHA-256 {export['sha256']}")
