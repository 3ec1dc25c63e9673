"""`trainard demo`: a running service with an example in it, and what the example says."""

import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import httpx
import rich_click as click
from rich.console import Console
from rich.progress import Progress, TaskID

from service.cli.child_service import running_service
from service.cli.databases import without_password
from service.cli.demo_story import Batches, Rate, tell
from service.cli.http_client import open_demo_client
from service.cli.sent_keys import VARIABLE

DEFAULT_PORT = 8000
DEMO_DATABASE = Path("data/demo.db")
TERMINATED = 128 + signal.SIGTERM
LOOK_EVERY_S = 1.0


@click.command("demo")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help=f"Port to listen on, 0 for a free one. Default: {DEFAULT_PORT}, or a free one when that "
    "is taken.",
)
@click.option(
    "--database-url",
    metavar="URL",
    help=f"Where the example is kept. Default: `{DEMO_DATABASE}`; with `--exit` a temporary file.",
)
@click.option("--rate", metavar="AMOUNT", help="Price of a GPU-hour, e.g. `2.10`. Default: none.")
@click.option("--currency", default="EUR", show_default=True, help="Currency of the price.")
@click.option("--exit", "exits", is_flag=True, help="Stop after printing.")
def command(
    *, port: int | None, database_url: str | None, rate: str | None, currency: str, exits: bool
) -> None:
    """Start a service, post the example batch and print what it loses.

    Four made-up clusters at sizes from 8 to 131 072 GPUs, one of them with one slow GPU, all
    through the HTTP API; then the same with that GPU fixed, compared. It keeps serving, to go on
    from there:

        trainard demo
        trainard demo --rate 2.10 --currency EUR --exit
    """
    signal.signal(signal.SIGTERM, _end)
    price = None if rate is None else Rate(rate, currency)
    try:
        with (
            _place(database_url, exits=exits) as (url, log),
            running_service(url, port=_port(port, exits=exits), log=log) as address,
            open_demo_client(address) as client,
        ):
            click.echo(f"Trainard is ready at {address} (docs: {address}/docs)")
            click.echo(f"Data: {without_password(url)}, log: {log}\n")
            batches = _show(client, price)
            click.echo(way_on(address, batches, with_key=client.auth is not None))
            if not exits:
                click.echo("\nServing until Ctrl-C.")
                _wait_for_end(client)
    except KeyboardInterrupt:
        click.echo("Stopped.")


@contextmanager
def _place(database_url: str | None, *, exits: bool) -> Iterator[tuple[str, Path]]:
    """The database's URL and the log file's path, removed afterwards where they are temporary."""
    if not exits:
        yield database_url or f"sqlite:///{DEMO_DATABASE}", DEMO_DATABASE.with_suffix(".log")
        return
    with tempfile.TemporaryDirectory(prefix="trainard-demo-") as folder:
        yield database_url or f"sqlite:///{folder}/demo.db", Path(folder) / "demo.log"


def _port(wanted: int | None, *, exits: bool) -> int:
    if wanted is not None or exits:
        return wanted or 0
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", DEFAULT_PORT)) == 0
    return 0 if taken else DEFAULT_PORT


def _show(client: httpx.Client, price: Rate | None) -> Batches:
    """Print the example; a progress bar stands on standard error while a batch runs."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def watch(batch: dict[str, Any]) -> None:
            if batch["id"] not in tasks:
                tasks[batch["id"]] = progress.add_task(batch["name"], total=batch["points_total"])
            progress.update(tasks[batch["id"]], completed=batch["points_done"])

        return tell(client, price, click.echo, watch)


def _wait_for_end(client: httpx.Client) -> None:
    """Return when the service has ended by itself."""
    try:
        while client.get("/healthz").is_success:
            time.sleep(LOOK_EVERY_S)
    except httpx.TransportError:
        click.echo("The service has ended.", err=True)


def _end(*_: object) -> NoReturn:
    # Leaves the context managers in order, so that the service does not outlive the demo.
    sys.exit(TERMINATED)


def way_on(address: str, batches: Batches, *, with_key: bool) -> str:
    """What to try next; `with_key`: the service answers nobody without one."""
    slow, fixed = batches.slow["id"], batches.fixed["id"]
    curl = f'curl -H "Authorization: Bearer ${VARIABLE}"' if with_key else "curl"
    results = f"{address}/v1/scenario-batches/{slow}/results"
    return f"""
Go on from here
  docs with "try it":  {address}/docs
  worst points first:  {curl} '{results}?order_by=-gpu_hours_lost&page_size=5'
  large clusters:      {curl} '{results}?num_gpus_min=1024&where=efficiency_fraction:lt:0.8'
  spreadsheet:         {curl} -o losses.csv '{address}/v1/exports?format=csv&batch={slow}'
  comparison:          {curl} '{address}/v1/comparisons?baseline={slow}&candidate={fixed}'
  one scenario:        {curl} -H 'Content-Type: application/json' {address}/v1/evaluations \\
                         -d '{{"profile": "prod-h100", "overrides": {{"num_gpus": 64}}}}'"""
