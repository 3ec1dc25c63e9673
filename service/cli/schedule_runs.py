"""`trainard schedule runs|run|show-run|backfill|backfills|…`: the ledger of a schedule."""

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
from service.cli.submission_options import moment_option, url_option
from service.jobs.backfill_documents import Reprocess
from service.jobs.run_documents import RunKind, RunState

DAY = click.DateTime(formats=["%Y-%m-%d"])


@click.command("runs")
@slug_argument
@click.option("--state", type=click.Choice(get_args(RunState)), help="Only those in this state.")
@click.option("--kind", type=click.Choice(get_args(RunKind)), help="Only those of this kind.")
@click.option("--backfill", type=click.UUID, metavar="ID", help="Only those of this backfill.")
@click.option(
    "--after",
    "scheduled_after",
    callback=moment_option,
    metavar="MOMENT",
    help="Only slots after it, e.g. `2026-11-01T00:00:00Z`.",
)
@click.option(
    "--before",
    "scheduled_before",
    callback=moment_option,
    metavar="MOMENT",
    help="Only slots before it: that of the last line shows the ones before.",
)
@click.option("--limit", type=click.IntRange(1, 1_000), default=30, show_default=True)
@format_option
@url_option
def runs_command(
    *, slug: str, limit: int, output_format: str, url: str, **wanted: str | UUID | datetime | None
) -> None:
    """List the slots that came, the newest first, and what became of them.

    For example:

        trainard schedule runs nightly --state failed

        trainard schedule runs nightly --after 2026-11-01T00:00:00+01:00
    """
    with reached(url) as client:
        query = {name: _said(value) for name, value in wanted.items()}
        page = get(client, path_of(slug, "/runs"), **query, page_size=str(limit))
    lines = [formats.run_table(page["items"])]
    if page["next_page_token"] is not None:
        last = page["items"][-1]["scheduled_for"]
        lines.append(f"There are more: --before {last}")
    show(page["items"], lines, output_format)


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
            run = _followed_run(client, run, url)
        show(run, _run_lines(client, run), output_format)
    if waits:
        sys.exit(run_exit_code(run))


@click.command("show-run")
@slug_argument
@click.argument("run", type=click.UUID, metavar="RUN")
@click.option("--wait", "waits", is_flag=True, help="Follow it to its end.")
@format_option
@url_option
def show_run_command(*, slug: str, run: UUID, waits: bool, output_format: str, url: str) -> None:
    """Show a run: how far it is, what it is compared with, and what must be said of it.

    RUN is an id that `trainard schedule runs` shows; with `--wait` exit codes as of
    `trainard schedule run`:

        trainard schedule show-run nightly 01a22c62-874f-710f-a9d8-8dc7c6404430
    """
    path = path_of(slug, f"/runs/{run}")
    with reached(url) as client:
        found = get(client, path)
        if waits:
            found = _followed_run(client, found, url)
        show(found, [*_run_lines(client, found), *formats.run_details(found)], output_format)
    if waits:
        sys.exit(run_exit_code(found))


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
    "reprocess": "--reprocess",
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
            backfill = _followed_backfill(client, backfill, url)
    show(backfill, [formats.backfill_line(backfill)], output_format)
    if waits:
        sys.exit(backfill_exit_code(backfill))


@click.command("backfills")
@slug_argument
@click.option("--limit", type=click.IntRange(1, 1_000), default=30, show_default=True)
@format_option
@url_option
def backfills_command(*, slug: str, limit: int, output_format: str, url: str) -> None:
    """List the backfills of a schedule, the newest first, and how far they are.

    For example:

        trainard schedule backfills nightly
    """
    with reached(url) as client:
        found = get(client, path_of(slug, "/backfills"), page_size=str(limit))["items"]
    show(found, [formats.backfill_table(found)], output_format)


@click.command("show-backfill")
@slug_argument
@click.argument("backfill", type=click.UUID, metavar="BACKFILL")
@click.option("--wait", "waits", is_flag=True, help="Follow it to its end.")
@format_option
@url_option
def show_backfill_command(
    *, slug: str, backfill: UUID, waits: bool, output_format: str, url: str
) -> None:
    """Show how far a backfill is.

    BACKFILL is an id that `trainard schedule backfills` shows; with `--wait` exit codes as of
    `trainard schedule backfill`:

        trainard schedule show-backfill nightly 01a22c62-874f-710f-a9d8-8dc7c6404430 --wait
    """
    with reached(url) as client:
        found = get(client, path_of(slug, f"/backfills/{backfill}"))
        if waits:
            found = _followed_backfill(client, found, url)
    show(found, [formats.backfill_line(found)], output_format)
    if waits:
        sys.exit(backfill_exit_code(found))


@click.command("cancel-backfill")
@slug_argument
@click.argument("backfill", type=click.UUID, metavar="BACKFILL")
@url_option
def cancel_backfill_command(*, slug: str, backfill: UUID, url: str) -> None:
    """Cancel a backfill; what it has computed is kept.

    BACKFILL is an id that `trainard schedule backfills` shows:

        trainard schedule cancel-backfill nightly 01a22c62-874f-710f-a9d8-8dc7c6404430
    """
    path = path_of(slug, f"/backfills/{backfill}/cancellation")
    with reached(url) as client:
        canceled = answered(client.post(path), slug)
    click.echo(formats.backfill_line(canceled))


COMMANDS = (
    runs_command,
    run_command,
    show_run_command,
    cancel_run_command,
    backfill_command,
    backfills_command,
    show_backfill_command,
    cancel_backfill_command,
)


def _said(value: str | UUID | datetime | None) -> str | None:
    """As a query says it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return None if value is None else str(value)


def _followed_run(client: httpx.Client, run: Document, url: str) -> Document:
    return follow(
        client,
        path_of(run["schedule_id"], f"/runs/{run['id']}"),
        has_ended=run_has_ended,
        describe=formats.run_line,
        left=f"\nNo longer waiting. It goes on; stop it:\n"
        f"  trainard schedule cancel-run {run['schedule']} {run['id']} --url {url}",
    )


def _followed_backfill(client: httpx.Client, backfill: Document, url: str) -> Document:
    return follow(
        client,
        path_of(backfill["schedule_id"], f"/backfills/{backfill['id']}"),
        has_ended=backfill_has_ended,
        describe=formats.backfill_line,
        left=f"\nNo longer waiting. It goes on; stop it:\n"
        f"  trainard schedule cancel-backfill {backfill['schedule']} {backfill['id']} --url {url}",
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
