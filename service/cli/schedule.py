"""`trainard schedule`: what a running service computes every night."""

from pathlib import Path
from typing import Any, BinaryIO

import httpx
import msgspec
import rich_click as click

from service.cli import schedule_formats as formats
from service.cli import schedule_repricings, schedule_runs
from service.cli.faults import refuse
from service.cli.schedule_paths import (
    SCHEDULES,
    format_option,
    get,
    get_all,
    path_of,
    show,
    slug_argument,
)
from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import post_once, url_option
from service.errors import FieldFault

JSON = {"Content-Type": "application/json"}
PREVIEWS = "/v1/schedule-previews"
file_argument = click.argument("file", type=click.File("rb"), metavar="FILE")


@click.group("schedule", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Make, change and run what is computed every night.

    A schedule is a batch that comes by cron in a time zone, with a report and deliveries:

        trainard schedule create nightly.json

        trainard schedule list

        trainard schedule run nightly --wait

        trainard schedule backfill nightly --from 2026-11-01 --to 2026-11-28 --dry-run

    Exit code 0: done; 1: no service, or it refused; 2: what was sent is faulty, every fault with
    its place; 3 and 4: a run that was waited for has failed, in part or as a whole.
    """


@command.command("list")
@click.option("--paused/--active", default=None, help="Only paused ones, or only the others.")
@click.option("--zone", metavar="ZONE", help="Only those of a time zone, e.g. `Europe/Paris`.")
@click.option("--prefix", metavar="TEXT", help="Only those whose name in the path begins so.")
@format_option
@url_option
def list_command(
    *, paused: bool | None, zone: str | None, prefix: str | None, output_format: str, url: str
) -> None:
    """List schedules: when they come next, and how the last run ended.

    For example:

        trainard schedule list --active --zone Europe/Paris
    """
    wanted = {None: None, True: "true", False: "false"}[paused]
    with reached(url) as client:
        found = get_all(client, SCHEDULES, paused=wanted, zone=zone, slug_prefix=prefix)
    show(found, [formats.schedule_table(found)], output_format)


@command.command("show")
@slug_argument
@format_option
@url_option
def show_command(*, slug: str, output_format: str, url: str) -> None:
    """Show a schedule.

    For example, to change it elsewhere:

        trainard schedule show nightly --format json
    """
    with reached(url) as client:
        found = get(client, path_of(slug))
    show(found, formats.schedule_lines(found), output_format)


@command.command("create")
@file_argument
@click.option("--validate-only", is_flag=True, help="Check it and show its nights; store nothing.")
@click.option("--idempotency-key", metavar="KEY", help="The same key and file make one schedule.")
@format_option
@url_option
def create_command(
    *,
    file: BinaryIO,
    validate_only: bool,
    idempotency_key: str | None,
    output_format: str,
    url: str,
) -> None:
    """Make a schedule from the JSON in FILE; `-` reads standard input.

    For example:

        trainard schedule create nightly.json --validate-only

    FILE says when it runs, what it computes, and what becomes of it; such as this, or
    service/cli/example/nightly.json, which has every field and which any service takes:

        {
          "slug": "nightly",
          "name": "Nightly what-if",
          "cron": "30 2 * * *",
          "zone": "Europe/Paris",
          "batch": {"items": [{"custom_id": "prod", "profile": "h100"}]},
          "budget": {"gpu_hours_lost_per_30_days": 200000},
          "deliveries": [{"kind": "directory", "folder": "nightly"}]
        }

    All its fields are described under ScheduleIn in the service's /openapi.json.
    """
    source, body = _name(file), file.read()
    _require_json(source, body)
    with reached(url) as client:
        if validate_only:
            query = {"validate_only": "true"}
            answer = client.post(SCHEDULES, content=body, headers=JSON, params=query)
            plan = answered(answer, source)
            show(plan, formats.plan_lines(plan), output_format)
            return
        made = post_once(client, SCHEDULES, body, source=source, key=idempotency_key)
    show(made, formats.schedule_lines(made), output_format)


@command.command("update")
@slug_argument
@file_argument
@click.option(
    "--version",
    type=click.IntRange(1),
    help="Only if it is at this version still. Default: whatever it is at now.",
)
@format_option
@url_option
def update_command(
    *, slug: str, file: BinaryIO, version: int | None, output_format: str, url: str
) -> None:
    """Change a schedule: what stands in FILE takes the place of what was, field by field.

    For example, an hour later:

        echo '{"cron": "30 3 * * *"}' | trainard schedule update nightly -
    """
    source, body = _name(file), file.read()
    _require_json(source, body)
    path = path_of(slug)
    with reached(url) as client:
        headers = {**JSON, **_if_match(client, path, version)}
        changed = answered(client.patch(path, content=body, headers=headers), source)
    show(changed, formats.schedule_lines(changed), output_format)


@command.command("pause")
@slug_argument
@url_option
def pause_command(*, slug: str, url: str) -> None:
    """Let a schedule come no more until it is resumed; what has begun goes on.

    For example:

        trainard schedule pause nightly
    """
    with reached(url) as client:
        paused = answered(client.post(path_of(slug, "/pause")), slug)
    click.echo(f"Schedule {paused['slug']} is paused since {paused['paused_at']}.")


@command.command("resume")
@slug_argument
@url_option
def resume_command(*, slug: str, url: str) -> None:
    """Let a paused schedule come again, from its next slot on.

    What would have come meanwhile is not caught up: `trainard schedule backfill` can do that.

        trainard schedule resume nightly
    """
    with reached(url) as client:
        headers = _if_match(client, path_of(slug), None)
        resumed = answered(client.delete(path_of(slug, "/pause"), headers=headers), slug)
    coming = resumed["next_occurrence"]
    when = "does not come any more" if coming is None else f"comes next at {coming['local']}"
    click.echo(f"Schedule {resumed['slug']} {when}.")


@command.command("delete")
@slug_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
def delete_command(*, slug: str, yes: bool, url: str) -> None:
    """Delete a schedule; its runs, reports and deliveries stay.

    For example:

        trainard schedule delete nightly --yes
    """
    with reached(url) as client:
        found = get(client, path_of(slug))
        if not yes:
            click.confirm(f"Delete the schedule {found['slug']} ({found['name']})?", abort=True)
        headers = {"If-Match": f'"{found["version"]}"'}
        answer = client.delete(path_of(slug), headers=headers)
        if not answer.is_success:
            answered(answer, slug)
    click.echo(f"Schedule {found['slug']} ({found['id']}) is deleted.")


@command.command("occurrences")
@slug_argument
@click.option("--count", type=click.IntRange(1, 200), default=20, show_default=True)
@click.option("--after", metavar="MOMENT", help="Those after it, e.g. `2027-03-27T00:00:00Z`.")
@format_option
@url_option
def occurrences_command(
    *, slug: str, count: int, after: str | None, output_format: str, url: str
) -> None:
    """Show when a schedule comes, with a note on the nights of change.

    For example:

        trainard schedule occurrences nightly --after 2027-03-27T00:00:00Z --count 3
    """
    with reached(url) as client:
        found = get(client, path_of(slug, "/occurrences"), count=str(count), after=after)
    show(found, _occurrence_lines(found), output_format)


@command.command("preview")
@click.argument("cron", metavar="CRON")
@click.argument("zone", metavar="ZONE")
@click.option("--count", type=click.IntRange(1, 200), default=20, show_default=True)
@click.option("--after", metavar="MOMENT", help="Those after it, e.g. `2027-03-27T00:00:00Z`.")
@format_option
@url_option
def preview_command(
    *, cron: str, zone: str, count: int, after: str | None, output_format: str, url: str
) -> None:
    """Show when a schedule would come that is not made yet.

    For example at the end of each month, in New York:

        trainard schedule preview "0 18 LW * *" America/New_York --count 12
    """
    query = {"count": str(count), **({} if after is None else {"after": after})}
    body = msgspec.json.encode({"cron": cron, "zone": zone})
    with reached(url) as client:
        answer = client.post(PREVIEWS, content=body, headers=JSON, params=query)
        found = answered(answer, "what was asked")
    show(found, _occurrence_lines(found), output_format)


for _subcommand in (*schedule_runs.COMMANDS, schedule_repricings.reprice_command):
    command.add_command(_subcommand)


def _occurrence_lines(found: Document) -> list[str]:
    title = f"{found['cron']}, {found['zone']} (zones of {found['tzdata_version']})"
    if found["paused"]:
        title += "; it is paused, so that none of these comes"
    return [title, "", formats.occurrence_table(found["items"])]


def _if_match(client: httpx.Client, path: str, version: int | None) -> dict[str, str]:
    if version is None:
        current: Document = get(client, path)
        version = current["version"]
    return {"If-Match": f'"{version}"'}


def _require_json(source: str, body: bytes) -> None:
    """Refuse what is no JSON with its place in the file; the service judges the rest."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        detail = f"this is no JSON: {error}"
        refuse(source, [FieldFault(pointer="", code="malformed_json", detail=detail)])
    if not isinstance(found, dict):
        detail = "a schedule is a JSON object"
        refuse(source, [FieldFault(pointer="", code="no_object", detail=detail)])


def _name(file: BinaryIO) -> str:
    return str(file.name) if isinstance(file.name, str | Path) else "standard input"
