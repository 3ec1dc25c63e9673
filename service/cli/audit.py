"""`trainard audit`: check the audit trail, write it into a file, remove old events."""

import os
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import UUID

import rich_click as click

from service.cli.databases import (
    database_option,
    existing_database,
    settings_with,
    without_password,
)
from service.cli.moments import MomentType
from service.db.audit import AuditFilter
from service.db.engine import Database
from service.errors import TrainardError
from service.jobs import audit_checks, audit_pruning
from service.jobs.audit_checks import Checked, Head
from service.jobs.audit_events import iterate_events
from service.jobs.audit_exports import FORMATS
from service.jobs.audit_sealing import seal
from service.jobs.teams import read_team

DEFAULT_TEAM: Final = "default"
FOUND_EXIT_CODE: Final = 1
_HEAD = re.compile(r"(?P<sequence>[0-9]{1,18}):(?P<hash>[0-9a-f]{64})")

team_option = click.option("--team", metavar="SLUG", help="Of this team.")


class HeadType(click.ParamType[Head]):
    """`SEQUENCE:HASH`, as `verify` prints it."""

    name = "head"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Head:
        """Read it."""
        found = _HEAD.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no head: SEQUENCE:HASH, as verify prints it", param, ctx)
        return Head(sequence=int(found["sequence"]), hash=found["hash"])


@click.group("audit", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Check, export or prune the audit trail.

    It has an event for each change, each refused access and each answer that showed money, written
    in the transaction of the change itself and chained to the one before within a second:

        trainard audit verify

    The actions of events are the operations of the API (the scope of each is in its description):

    - profiles: create_profile, revise_profile, archive_profile, restore_profile

    - calibrations: create_calibration, accept_calibration, delete_calibration

    - back-tests: create_back_test, delete_back_test

    - rates: create_rate, correct_rate, import_rates, approve_rate

    - batches: submit_batch, cancel_batch, retry_batch, reprice_batch, publish_batch,
      unpublish_batch, delete_batch

    - files: create_export, delete_export

    - schedules: create_schedule, change_schedule, pause_schedule, resume_schedule, delete_schedule,
      reprice_schedule, create_run, cancel_run, create_backfill, cancel_backfill

    - reports: create_report, delete_report

    - deliveries: replay_delivery, cancel_delivery, create_webhook_endpoint,
      change_webhook_endpoint, delete_webhook_endpoint, rotate_webhook_secret,
      test_webhook_endpoint

    - keys: create_api_key, change_api_key, revoke_api_key

    - sessions of the pages: sign_in, sign_out

    and of programs: create_team, change_team, backup, restore, prune_audit_events, prune_reports,
    prune_deliveries, leave_out_slots, remove_delivered_files, disable_webhook_endpoint,
    encrypt_webhook_secrets. Programs are named as actors: retention, prune, import-rates, key,
    team, backup, restore, audit-prune, and schedule/SLUG for the batches of a schedule's runs.
    """


@command.command("verify")
@team_option
@click.option(
    "--head",
    type=HeadType(),
    metavar="SEQ:HASH",
    help="A head that was kept elsewhere; the event must still be there, with this hash.",
)
@database_option
def verify(*, team: str | None, head: Head | None, database_url: str | None) -> None:
    """Find events that were altered, removed, put in or moved.

    Exit code 1 and a sentence for each finding. Keep the head that is printed outside of the
    database: with it a trail is found, too, that was rewritten from its first event to its last,
    or cut off at its end:

        trainard audit verify --team default --head 1042:9f86d081884c7d65...
    """
    if head is not None and team is None:
        raise click.UsageError("--head is of one team: give --team too")
    with existing_database(settings_with(database_url).database_url) as database:
        if team is not None:
            _team_id(database, team)
        found = [_told(checked) for checked in audit_checks.check(database, team=team, head=head)]
    if any(found):
        sys.exit(FOUND_EXIT_CODE)


@command.command("export")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--format", "kind", type=click.Choice(list(FORMATS)), help="Default: by the name.")
@click.option(
    "--team", metavar="SLUG", default=DEFAULT_TEAM, show_default=True, help="Of this team."
)
@click.option("--from", "after", type=MomentType(), metavar="DAY", help="From this day on.")
@click.option("--until", type=MomentType(), metavar="DAY", help="Up to this day, without it.")
@database_option
def export(
    *,
    file: Path,
    kind: str | None,
    team: str,
    after: datetime | None,
    until: datetime | None,
    database_url: str | None,
) -> None:
    """Write the events of a team into a file, the oldest first.

    JSON Lines hold all that is stored: the hash of an event is the SHA-256 of its line as RFC 8785
    JSON, without `hash` and what is null. CSV is for a spreadsheet; `-` is standard output:

        trainard audit export october.csv --from 2026-10-01 --until 2026-11-01
    """
    kind = kind or file.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise click.UsageError(f"{file.name!r} ends in no format: give --format jsonl or csv")
    wanted = AuditFilter(created_from=after, created_before=until)
    with existing_database(settings_with(database_url).database_url) as database:
        pages = iterate_events(database, _team_id(database, team), wanted)
        _write(file, FORMATS[kind](pages))


@command.command("prune")
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(min=1, max=100_000),
    metavar="DAYS",
    required=True,
    help="Remove events that are older than so many days.",
)
@click.option("--dry-run", is_flag=True, help="Count them and remove nothing.")
@database_option
def prune(*, days: int, dry_run: bool, database_url: str | None) -> None:
    """Remove old events, of all teams and from the oldest end only.

    An event says up to which one, and with which hash; export them first:

        trainard audit prune --older-than 3650 --dry-run

    A service does it by itself with `TRAINARD_AUDIT_RETENTION_DAYS=3650`.
    """
    url = settings_with(database_url).database_url
    with existing_database(url) as database:
        seal(database)
        number = audit_pruning.count(database, days)
        are = "is" if number == 1 else "are"
        click.echo(f"{_counted(number, 'event')} {are} older than {days} days")
        if dry_run:
            click.echo("dry run: nothing is removed")
            return
        removed = sum(audit_pruning.prune(database, days))
        seal(database)
    click.echo(f"removed {_counted(removed, 'event')}: {without_password(url)}")


def _told(checked: Checked) -> bool:
    """Print what was found of one team; whether there was anything."""
    for finding in checked.findings:
        click.echo(f"{checked.team}: {finding.sentence} [{finding.kind}]", err=True)
    if checked.num_findings > len(checked.findings):
        more = checked.num_findings - len(checked.findings)
        click.echo(f"{checked.team}: and {_counted(more, 'further finding')}", err=True)
    for warning in checked.warnings:
        click.echo(f"{checked.team}: warning: {warning.sentence}", err=True)
    pruned = f", {checked.pruned_sequence} before them pruned" if checked.pruned_sequence else ""
    events = _counted(checked.num_events, "event")
    found = _counted(checked.num_findings, "finding")
    click.echo(
        f"{checked.team}: {events}{pruned}: {found if checked.num_findings else 'all as recorded'}"
    )
    click.echo(f"{checked.team}: head {checked.head.sequence}:{checked.head.hash}")
    return checked.num_findings > 0


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _team_id(database: Database, slug: str) -> UUID:
    try:
        with database.read() as connection:
            return read_team(connection, slug).id
    except TrainardError as error:
        raise click.ClickException(error.detail) from error


def _write(file: Path, parts: Iterable[bytes]) -> None:
    if str(file) == "-":
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    # Who was refused what is not for everybody on this machine.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        for part in parts:
            output.write(part)
    click.echo(f"wrote {file}")
