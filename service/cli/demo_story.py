"""The demo's walk through the API: profiles, rates, two batches, results, comparison."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple

import httpx

from service.cli import demo_report
from service.cli.http_client import create_once, read_pages, submit_batch, wait_for_batch

Document = dict[str, Any]
Say = Callable[[str], None]
Watch = Callable[[Document], None]


class Rate(NamedTuple):
    """A price of a GPU-hour, stored for the GPU types of the example."""

    amount: str
    currency: str


class Batches(NamedTuple):
    """The two batches, ended: with the slow GPU, and without it."""

    slow: Document
    fixed: Document


def example(name: str) -> Any:
    """A document of the packaged example."""
    file = resources.files("service.cli") / "example" / name
    return json.loads(file.read_text(encoding="utf-8"))


def tell(client: httpx.Client, rate: Rate | None, say: Say, watch: Watch) -> Batches:
    """Run the example through the API; `say` gets every text, `watch` the running batches."""
    profiles = example("profiles.json")
    created = sum(create_once(client, "/v1/cluster-profiles", profile) for profile in profiles)
    say(f"Cluster profiles: {created} created, {len(profiles) - created} there already")
    if rate is not None:
        _store_rates(client, profiles, rate, say)
    body = _priced(example("batch.json"), rate)
    slow = _run(client, body, say, watch)
    _say_losses(client, slow, body, say)
    fixed = _run(client, _priced(example("batch-fixed.json"), rate), say, watch)
    say("\nGPU-hours lost in 30 days, before and after the slow GPU was fixed")
    comparison = _comparison(client, slow, fixed)
    say(demo_report.comparison_table(comparison, body))
    if rate is not None:
        say(demo_report.cost_sentence(comparison))
    return Batches(slow, fixed)


def _store_rates(client: httpx.Client, profiles: list[Document], rate: Rate, say: Say) -> None:
    """One open-ended rate for each GPU type, from the start of the year."""
    for profile in profiles:
        body = {
            "gpu_type": profile["gpu_type"],
            "cost_center": None,
            "price_per_gpu_hour": {"amount": rate.amount, "currency": rate.currency},
            "valid_from": datetime.now(UTC).date().replace(month=1, day=1).isoformat(),
            "valid_until": None,
            "source": "trainard demo --rate",
        }
        stored = create_once(client, "/v1/gpu-hour-rates", body)
        what = f"{rate.amount} {rate.currency}" if stored else "kept the one that is there"
        say(f"Rate of {profile['gpu_type']}: {what}")


def _priced(body: Document, rate: Rate | None) -> Document:
    return body if rate is None else {**body, "currency": rate.currency}


def _run(client: httpx.Client, body: Document, say: Say, watch: Watch) -> Document:
    # Once a day anew: what a loss costs depends on the day that its window begins.
    batch = submit_batch(client, body, salt=datetime.now(UTC).date().isoformat())
    batch = wait_for_batch(client, batch, watch)
    points = f"{batch['points_done']} of {batch['points_total']} points"
    say(f"Batch {batch['id']} ({batch['name']}): {batch['state']}, {points}")
    return batch


def _say_losses(client: httpx.Client, batch: Document, body: Document, say: Say) -> None:
    pages = read_pages(client, f"/v1/scenario-batches/{batch['id']}/results")
    rows = [row for page in pages for row in page["items"]]
    say(f"\n{demo_report.loss_tables(rows, batch['metadata'])}")
    say("\nEach cluster at its own size (step times vary by 0.5 %)")
    say(f"{demo_report.clusters_table(demo_report.headline_rows(rows, body))}\n")


def _comparison(client: httpx.Client, slow: Document, fixed: Document) -> Document:
    """The whole comparison: the summary of the first page, the items of all."""
    pages = list(read_pages(client, "/v1/comparisons", baseline=slow["id"], candidate=fixed["id"]))
    return {**pages[0], "items": [item for page in pages for item in page["items"]]}
