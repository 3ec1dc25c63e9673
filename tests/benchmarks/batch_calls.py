"""What a caller of the service does with a batch, timed from outside."""

import time
from typing import NamedTuple

import httpx

from service.cli.http_client import read, submit_batch, wait_for_batch
from tests.benchmarks.batch_tables import SCENARIO, WARM_UP, Document, batch_of

ROWS = 50
WORST_FIRST = "-gpu_hours_lost"


class BatchRun(NamedTuple):
    """A batch that has succeeded, and the seconds from sending it until a caller knew that."""

    url: str
    batch_id: str
    seconds: float


def run_batch(
    client: httpx.Client, axes: list[Document], name: str, scenario: Document = SCENARIO
) -> BatchRun:
    """Post a batch and ask until it has ended."""
    start = time.perf_counter()
    batch = submit_batch(client, batch_of(axes, name, scenario), salt=name)
    batch = wait_for_batch(client, batch, lambda _: None)
    seconds = time.perf_counter() - start
    if batch["state"] != "succeeded" or batch["reused_from"] is not None:
        raise RuntimeError(f"unexpected end: {batch}")
    return BatchRun(f"/v1/scenario-batches/{batch['id']}", batch["id"], seconds)


def warm_up(client: httpx.Client) -> None:
    """Let the service compute something in each of its processes, and answer once."""
    batch = run_batch(client, WARM_UP, "warm-up")
    read_page(client, batch.url, order_by=WORST_FIRST)


def read_page(client: httpx.Client, batch_url: str, **query: str) -> float:
    """Seconds of one full page of the batch's results."""
    start = time.perf_counter()
    page = read(client, f"{batch_url}/results", page_size=str(ROWS), **query)
    seconds = time.perf_counter() - start
    if len(page["items"]) != ROWS:
        raise RuntimeError(f"{len(page['items'])} rows of {query}")
    return seconds
