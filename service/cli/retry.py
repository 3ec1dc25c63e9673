"""`trainard retry`: compute what a batch of a running service has left."""

from datetime import datetime
from uuid import UUID

import msgspec
import rich_click as click

from service.cli.batch_waiting import report
from service.cli.service_answers import reached
from service.cli.submission_options import post_once, submission_options, wishes


@click.command("retry")
@click.argument("batch", type=click.UUID, metavar="BATCH")
@submission_options
def command(
    *,
    batch: UUID,
    url: str,
    waits: bool,
    priority: int | None,
    deadline: datetime | None,
    idempotency_key: str | None,
    output_format: str,
) -> None:
    """Compute what a batch has left.

    BATCH is the id of one that was canceled, has expired, or could not be computed. A new batch
    computes those items; points that break a rule are not tried again:

        trainard retry 01a228d5-8419-71c9-b360-7d854e38e1c4 --wait

    Exit codes are those of trainard submit.
    """
    with reached(url) as client:
        made = post_once(
            client,
            f"/v1/scenario-batches/{batch}/retries",
            msgspec.json.encode(wishes(priority, deadline)),
            source=f"the retry of {batch}",
            key=idempotency_key,
        )
        report(client, made, output_format=output_format, waits=waits)
