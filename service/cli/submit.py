"""`trainard submit`: post a batch to a running service, and follow it if wished."""

import json
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec
import rich_click as click

from service.cli import batch_report
from service.cli.batch_waiting import report
from service.cli.faults import refuse
from service.cli.service_answers import answered, reached
from service.cli.submission_options import post_once, submission_options, wishes
from service.errors import FieldFault

PATH = "/v1/scenario-batches"


@click.command("submit")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@submission_options
@click.option("--validate-only", is_flag=True, help="Check and estimate; store nothing.")
def command(
    *,
    file: BinaryIO,
    url: str,
    waits: bool,
    priority: int | None,
    deadline: datetime | None,
    idempotency_key: str | None,
    output_format: str,
    validate_only: bool,
) -> None:
    """Post a batch to a running service.

    FILE is the JSON of a batch; `-` reads standard input. Prints the batch's id and where to look:

        trainard submit batch.json

        trainard submit batch.json --wait --priority 1

    With `--wait` it follows the batch (Ctrl-C leaves it running) and prints what is lost. Exit
    code 0: accepted, or succeeded; 1: no service, or it refused; 2: the batch is faulty, every
    fault with its place in the file; 3: partially failed; 4: failed, canceled or expired; 130:
    interrupted while waiting.
    """
    source = _name(file)
    body = _body(file.read(), source, wishes(priority, deadline))
    with reached(url) as client:
        if validate_only:
            headers = {"Content-Type": "application/json"}
            query = {"validate_only": "true"}
            plan = answered(client.post(PATH, content=body, headers=headers, params=query), source)
            as_text = output_format == "table"
            click.echo("\n".join(batch_report.plan_lines(plan)) if as_text else json.dumps(plan))
            return
        batch = post_once(client, PATH, body, source=source, key=idempotency_key)
        report(client, batch, output_format=output_format, waits=waits)


def _body(text: bytes, source: str, said: dict[str, object]) -> bytes:
    """The file as it is, unless an option says more; the service judges what stands in it."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        detail = f"this is no JSON: {error}"
        refuse(source, [FieldFault(pointer="", code="malformed_json", detail=detail)])
    if not said or not isinstance(found, dict):
        return text
    return msgspec.json.encode({**found, **said})


def _name(file: BinaryIO) -> str:
    return str(file.name) if isinstance(file.name, str | Path) else "standard input"
