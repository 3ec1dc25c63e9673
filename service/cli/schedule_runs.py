"""`trainard schedule runs|run|backfill|cancel-run|cancel-backfill`: the ledger of a schedule."""

import sys
from datetime import datetime
from typing import Final, get_args
from uuid import UUID, uuid4

import httpx
import msgspec
import rich_click as click

from service.cli import schedule_formats as formats
from service.cli.schedule_following import (
    backfill_exit_code,
    backfill_has_ended,
    follow,
    run_exit_code,
    run_has_ended,
)
from service.cli.schedule_paths import format_option, get, path_of, show, slug_argument
from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import url_option
from service.jobs.backfill_documents import Reprocess
from service.jobs.run_documents import RunKind, RunState

DAY = click.DateTime(formats=["%Y-%m-%d"])


@click.command("runs")
@slug_argument
@click.option("--state", type=click.Choice(get_args(RunState)), help="Only those in this state.")
@click.option("--kind", type=click.Choice(get_args(RunKind)), help="Only those of this kind.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=30, show_default=True)
@format_option
@url_option
def runs_command(
    *, slug: str, state: str | None, kind: str | None, limit: int, output_format: str, url: str
) -> None:
    """List the slots that came, the newest first, and what became of them.

    For example:

        trainard schedule runs nightly --state failed
    """
    with reached(url) as client:
        query = {"state": state, "kind": kind, "page_size": str(limit)}
        page = get(client, path_of(slug, "/runs"), **query)
    show(page["items"], [formats.run_table(page["items"])], output_format)


@click.command("run")
@slug_argument
@click.option("--wait", "waits", is_flag=True, help="Follow it to its end.")
@format_option
@url_option
def run_command(*, slug: str, waits: bool, output_format: str, url: str) -> None:
    """Run a schedule now, paused or not.

    With `--wait` exit code 3: partially failed; 4: failed, canceled, skipped or replaced; 130:
    interrupted while waiting, and it goes on.

        trainard schedule run nightly --wait
    """
    with reached(url) as client:
        run = _posted(client, path_of(slug, "/runs"), slug)
        if waits:
            run = follow(
                client,
                path_of(run["schedule_id"], f"/runs/{run['id']}"),
                has_ended=run_has_ended,
                describe=formats.run_line,
                left=f"\nNo longer waiting. It goes on; stop it:\n"
                f"  trainard schedule cancel-run {slug} {run['id']} --url {url}",
            )
        show(run, _run_lines(client, run), output_format)
    if waits:
        sys.exit(run_exit_code(run))


@click.command("cancel-run")
@slug_argument
@click.argument("run", type=click.UUID, metavar="RUN")
@url_option
def cancel_run_command(*, slug: str, run: UUID, url: str) -> None:
    """Cancel a run; what its batch has finished is kept.

    RUN is an id that `trainard schedule runs` shows:

        trainard schedule cancel-run nightly 01a22c62-874f-710f-a9d8-8dc7c6404430
    """
    with reached(url) as client:
        canceled = answered(client.post(path_of(slug, f"/runs/{run}/cancellation")), slug)
    click.echo(formats.run_line(canceled))


# What fields of a backfill are called here
OPTIONS: Final = {
    "first_on": "--from",
    "last_on": "--to",
    "max_running": "--max-running",
    "newest_first": "--newest-first",
}


@click.command("backfill")
@slug_argument
@click.option("--from", "first_on", type=DAY, required=True, metavar="DAY", help="First day.")
@click.option("--to", "last_on", type=DAY, required=True, metavar="DAY", help="Last day, included.")
@click.option(
    "--reprocess",
    type=click.Choice(get_args(Reprocess)),
    default="none",
    show_default=True,
    help="`none`: slots for which nothing was computed; `failed`: those that failed too; `all`.",
)
@click.option("--newest-first", is_flag=True, help="Begin with the newest slot.")
@click.option(
    "--max-running",
    type=click.IntRange(1, 50),
    default=4,
    show_default=True,
    help="How many of its batches compute at a time.",
)
@click.option("--deliver", is_flag=True, help="Deliver each run as one of the night.")
@click.option("--dry-run", is_flag=True, help="Show the slots, points and time; store nothing.")
@click.option("--wait", "waits", is_flag=True, help="Follow it to its end.")
@format_option
@url_option
def backfill_command(
    *,
    slug: str,
    first_on: datetime,
    last_on: datetime,
    dry_run: bool,
    waits: bool,
    output_format: str,
    url: str,
    **wishes: object,
) -> None:
    """Run the slots of past days, or run them again.

    The days are those of the schedule's zone. Look first at what it would do:

        trainard schedule backfill nightly --from 2026-11-01 --to 2026-11-28 --dry-run

    With `--wait` exit code 3: not all runs have succeeded; 4: none; 130: interrupted while
    waiting, and it goes on.
    """
    days = {"first_on": first_on.date(), "last_on": last_on.date()}
    path = path_of(slug, "/backfills")
    with reached(url) as client:
        if dry_run:
            plan = _posted(client, path, slug, {**days, **wishes}, validate_only="true")
            show(plan, formats.backfill_plan_lines(plan), output_format)
            return
        backfill = _posted(client, path, slug, {**days, **wishes})
        if waits:
            backfill = follow(
                client,
                path_of(backfill["schedule_id"], f"/backfills/{backfill['id']}"),
                has_ended=backfill_has_ended,
                describe=formats.backfill_line,
                left=f"\nNo longer waiting. It goes on; stop it:\n"
                f"  trainard schedule cancel-backfill {slug} {backfill['id']} --url {url}",
            )
    show(backfill, [formats.backfill_line(backfill)], output_format)
    if waits:
        sys.exit(backfill_exit_code(backfill))


@click.command("cancel-backfill")
@slug_argument
@click.argument("backfill", type=click.UUID, metavar="BACKFILL")
@url_option
def cancel_backfill_command(*, slug: str, backfill: UUID, url: str) -> None:
    """Cancel a backfill; what it has computed is kept.

    BACKFILL is the id that `trainard schedule backfill` has printed:

        trainard schedule cancel-backfill nightly 01a22c62-874f-710f-a9d8-8dc7c6404430
    """
    path = path_of(slug, f"/backfills/{backfill}/cancellation")
    with reached(url) as client:
        canceled = answered(client.post(path), slug)
    click.echo(formats.backfill_line(canceled))


COMMANDS = (
    runs_command,
    run_command,
    cancel_run_command,
    backfill_command,
    cancel_backfill_command,
)


def _posted(
    client: httpx.Client, path: str, source: str, body: Document | None = None, **query: str
) -> Document:
    headers = {"Idempotency-Key": str(uuid4())}
    if body is None:
        return answered(client.post(path, headers=headers), source)
    headers["Content-Type"] = "application/json"
    content = msgspec.json.encode(body)
    response = client.post(path, content=content, headers=headers, params=query)
    return answered(response, source, OPTIONS)


def _run_lines(client: httpx.Client, run: Document) -> list[str]:
    address = str(client.base_url).rstrip("/")
    places = {"run": path_of(run["schedule"], f"/runs/{run['id']}"), "batch": run["batch_url"]}
    if run["report_url"] is not None:
        places["report"] = f"{run['report_url']}/content?format=html"
    return [
        formats.run_line(run),
        *(f"  {name + ':':8}{address}{path}" for name, path in places.items() if path),
    ]
