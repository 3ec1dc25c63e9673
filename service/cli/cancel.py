"""`trainard cancel`: stop a batch of a running service."""

from uuid import UUID

import rich_click as click

from service.cli import batch_report
from service.cli.service_answers import answered, reached
from service.cli.submission_options import url_option


@click.command("cancel")
@click.argument("batch", type=click.UUID, metavar="BATCH")
@url_option
def command(*, batch: UUID, url: str) -> None:
    """Stop a batch; what is finished is kept.

    BATCH is its id:

        trainard cancel 01a228d5-8419-71c9-b360-7d854e38e1c4

    Repeating it is harmless; a batch that has ended is refused (exit code 1).
    """
    with reached(url) as client:
        response = client.post(f"/v1/scenario-batches/{batch}/cancellation")
        click.echo(batch_report.batch_line(answered(response, str(batch))))
