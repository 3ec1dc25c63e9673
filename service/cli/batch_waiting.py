"""The end of a batch on the command line: a progress bar, what is lost, the exit code."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import rich_click as click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from service.cli import batch_report
from service.cli.asking import ProgressLines
from service.cli.batch_following import OnProgress, follow
from service.cli.service_answers import Document, answered

EXIT_CODES: Final = {
    "succeeded": 0,
    "partially_failed": 3,
    "failed": 4,
    "canceled": 4,
    "expired": 4,
}
INTERRUPTED: Final = 130
TABLE_ROWS: Final = 50
SHOWN_FAULTS: Final = 5


def report(client: httpx.Client, batch: Document, *, output_format: str, waits: bool) -> None:
    """Print an accepted batch; with `waits` follow it to its end and end the program there."""
    as_text = output_format == "table"
    if as_text:
        click.echo("\n".join([batch_report.batch_line(batch), *batch_report.origin_lines(batch)]))
        click.echo("\n".join(_places(client, batch)))
    if not waits:
        if not as_text:
            click.echo(json.dumps(batch, ensure_ascii=False))
        return
    try:
        with progress_bar(batch) as on_progress:
            batch = follow(client, batch, on_progress)
    except KeyboardInterrupt:
        click.echo(_left_running(client, batch), err=True)
        sys.exit(INTERRUPTED)
    if as_text:
        _print_end(client, batch)
    else:
        results = _read(client, batch["results_url"])
        click.echo(json.dumps({**batch, "results": results}, ensure_ascii=False))
    sys.exit(EXIT_CODES[batch["state"]])


@contextmanager
def progress_bar(batch: Document) -> Iterator[OnProgress]:
    """A bar on standard error, where that is a terminal; else a line once a minute."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("points"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console, lines = Console(stderr=True), ProgressLines()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(batch["state"], total=batch["points_total"])

        def update(newest: Document) -> None:
            progress.update(task, description=newest["state"], completed=newest["points_done"])
            if not console.is_terminal:
                lines.tell(batch_report.batch_line(newest))

        yield update


def _print_end(client: httpx.Client, batch: Document) -> None:
    click.echo("\n" + batch_report.batch_line(batch))
    if batch["failure"]:
        click.echo(f"Reason: {batch['failure']}")
    query = {"page_size": str(TABLE_ROWS)}
    order = {}
    if batch["points_done"] > TABLE_ROWS:
        order["order_by"] = "-gpu_hours_lost"
    rows = _read(client, batch["results_url"], **query, **order)["items"]
    if rows:
        shown = f"The {len(rows)} points that lose most\n" if order else ""
        click.echo(f"\n{shown}{batch_report.loss_table(rows)}")
    if batch["points_failed"]:
        faults = _read(client, batch["errors_url"], page_size=str(SHOWN_FAULTS))
        more = batch["points_failed"] - len(faults["items"])
        lines = batch_report.fault_lines(faults)
        if more:
            lines.append(f"  and {more} more: {_url(client, batch['errors_url'])}")
        click.echo("\n" + "\n".join(lines))


def _places(client: httpx.Client, batch: Document) -> list[str]:
    address = f"/v1/scenario-batches/{batch['id']}"
    places = {"state": address, "events": batch["events_url"], "results": batch["results_url"]}
    return [f"  {name + ':':9}{_url(client, path)}" for name, path in places.items()]


def _left_running(client: httpx.Client, batch: Document) -> str:
    url = str(client.base_url).rstrip("/")
    return (
        f"\nNo longer waiting. Batch {batch['id']} goes on:\n"
        f"  look:  curl {url}/v1/scenario-batches/{batch['id']}\n"
        f"  stop:  trainard cancel {batch['id']} --url {url}"
    )


def _url(client: httpx.Client, path: str) -> str:
    return str(client.base_url).rstrip("/") + path


def _read(client: httpx.Client, path: str, **query: str) -> Document:
    return answered(client.get(path, params=query), path)
