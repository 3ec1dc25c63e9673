"""`trainard run-report`: run a schedule or a batch now, report on it, and judge its budget."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn
from uuid import UUID

import httpx
import msgspec
import rich_click as click

from service.cli.asking import until
from service.cli.batch_following import follow
from service.cli.batch_waiting import EXIT_CODES, INTERRUPTED, progress_bar
from service.cli.faults import refuse
from service.cli.finite_numbers import FiniteRange
from service.cli.report_following import (
    ENDINGS_TEXT,
    REPORTS,
    check_output,
    language_option,
    made,
    save,
    show,
)
from service.cli.schedule_following import run_has_ended
from service.cli.schedule_formats import run_line
from service.cli.schedule_paths import path_of
from service.cli.service_answers import Document, reached
from service.cli.submission_options import post_once, url_option
from service.errors import FieldFault
from service.jobs.schedule_documents import Language
from service.reports.language import Words, words
from service.reports.loss_report import BudgetOutcome

BATCHES: Final = "/v1/scenario-batches"
OVER_BUDGET: Final = 5
NOT_JUDGED: Final = 6
NOT_COMPUTED: Final = 4
_MONEY: Final = re.compile(r"(?P<amount>[0-9]+(\.[0-9]+)?) ?(?P<currency>[A-Z]{3})", re.ASCII)


class MoneyType(click.ParamType[Document]):
    """`1234.56EUR`."""

    name = "money"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Document:
        """Read it."""
        found = _MONEY.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is no amount such as 1234.56EUR", param, ctx)
        return found.groupdict()


@click.command("run-report")
@click.argument("schedule", required=False, metavar="[SCHEDULE]")
@click.option(
    "--batch",
    "file",
    type=click.File("rb", lazy=True),
    metavar="FILE",
    help="A batch, instead of a schedule; `-` reads standard input.",
)
@click.option("--baseline", type=click.UUID, metavar="BATCH", help="What --batch is compared with.")
@click.option(
    "--budget-gpu-hours",
    type=FiniteRange(min=0, min_open=True),
    metavar="HOURS",
    help="How many GPU-hours --batch may lose in 30 days.",
)
@click.option(
    "--budget-cost",
    type=MoneyType(),
    metavar="MONEY",
    help="What the loss of --batch may cost in 30 days, e.g. `250000EUR`.",
)
@click.option(
    "--fail-over-budget",
    "judges",
    is_flag=True,
    help="Exit code 5 when it is over, 6 when unknown.",
)
@click.option(
    "--save",
    "outputs",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help=f"Save the report too, once or more: {ENDINGS_TEXT}.",
)
@language_option
@url_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    schedule: str | None,
    file: BinaryIO | None,
    baseline: UUID | None,
    budget_gpu_hours: float | None,
    budget_cost: Document | None,
    judges: bool,
    outputs: tuple[Path, ...],
    language: Language | None,
    url: str,
) -> None:
    """Compute now what is lost in 30 days, and fail a build that is over its budget.

    SCHEDULE is the slug of one of the service: it runs once, with its own baseline and budget, and
    its deliveries go out. With `--batch` a batch of your own is computed instead:

        trainard run-report nightly --fail-over-budget

        trainard run-report --batch batch.json --budget-gpu-hours 200000 --fail-over-budget

        trainard run-report nightly --fail-over-budget --save loss.html --save loss.json

    Prints the headline and the budget; programs read what `--save loss.json` writes. Exit code 0:
    reported, and within the budget if that was asked; 1: no service, or it refused; 2: what was
    sent is faulty; 3: some points failed; 4: nothing was computed (failed, canceled, expired,
    skipped); 5: over budget; 6: nobody can say (no budget, no rate, items that failed, no item with
    a headline point, or money that this key may not see); 130: interrupted, and it goes on. 5 and 6
    only with `--fail-over-budget`.
    """
    for output in outputs:
        check_output(output, chosen=None)
    if (schedule is None) == (file is None):
        raise click.UsageError("name a schedule, or give --batch")
    if schedule is not None and (baseline or budget_gpu_hours or budget_cost):
        raise click.UsageError("a schedule has its own baseline and budget")
    with reached(url) as client:
        try:
            if file is None:
                state, report_id = _of_schedule(client, str(schedule))
            else:
                budget = {
                    "gpu_hours_lost_per_30_days": budget_gpu_hours,
                    "cost_of_loss_per_30_days": budget_cost,
                }
                state, report_id = _of_batch(client, file, baseline, budget)
            with leaving(f"Its report: trainard report show {report_id} --url {url}"):
                report = made(client, report_id)
            found = show(client, report, language)
            said = words(language or report["language"])
            for output in outputs:
                save(client, report_id, output, chosen=None, language=language, said=said.language)
        except KeyboardInterrupt:
            click.echo("\nNo longer waiting; it goes on.", err=True)
            sys.exit(INTERRUPTED)
    if judges:
        _judge(found.budget, said)
    sys.exit(EXIT_CODES.get(state, NOT_COMPUTED))


@contextmanager
def leaving(left: str) -> Iterator[None]:
    """Who interrupts is told what is left behind (code 130)."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\nNo longer waiting. {left}", err=True)
        sys.exit(INTERRUPTED)


def _address(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/")


def _of_schedule(client: httpx.Client, schedule: str) -> tuple[str, str]:
    """Run the schedule, and wait for the run's end; its state and its report."""
    path = path_of(schedule, "/runs")
    started = post_once(client, path, b"{}", source=schedule, key=None)
    click.echo(f"Run {started['id']} of {schedule} has begun", err=True)
    with leaving(
        f"The run goes on, and makes its report; stop it:\n"
        f"  trainard schedule cancel-run {schedule} {started['id']} --url {_address(client)}"
    ):
        run = until(client, f"{path}/{started['id']}", run_has_ended, run_line)
    if run["report_id"] is None:
        _end(f"run {run['id']} is {run['state']}: {run['reason']}")
    return run["state"], run["report_id"]


def _of_batch(
    client: httpx.Client, file: BinaryIO, baseline: UUID | None, budget: Document
) -> tuple[str, str]:
    """Compute the batch, and have a report made; the batch's state and the report."""
    source = str(file.name) if isinstance(file.name, str | Path) else "standard input"
    text = file.read()
    _refuse_unfit(text, source, budget["cost_of_loss_per_30_days"])
    batch = post_once(client, BATCHES, text, source=source, key=None)
    click.echo(f"Batch {batch['id']} has begun", err=True)
    with (
        leaving(
            f"The batch goes on, but no report is made of it:\n"
            f"  stop:    trainard cancel {batch['id']} --url {_address(client)}\n"
            f"  report:  trainard report make {batch['id']} --url {_address(client)}"
        ),
        progress_bar(batch) as on_progress,
    ):
        batch = follow(client, batch, on_progress)
    if EXIT_CODES[batch["state"]] == NOT_COMPUTED and not batch["points_done"]:
        _end(f"batch {batch['id']} is {batch['state']}: {batch['failure']}")
    wanted: dict[str, Any] = {"batch_id": batch["id"]}
    if baseline is not None:
        wanted["baseline_batch_id"] = str(baseline)
    given = {name: value for name, value in budget.items() if value is not None}
    if given:
        wanted["budget"] = given
    body = msgspec.json.encode(wanted)
    asked = post_once(client, REPORTS, body, source="the report", key=None)
    return batch["state"], asked["id"]


def _refuse_unfit(text: bytes, source: str, cost: Document | None) -> None:
    """Refuse what is no JSON, and a batch whose report could not be held against the budget."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        detail = f"this is no JSON: {error}"
        refuse(source, [FieldFault(pointer="", code="malformed_json", detail=detail)])
    if cost is None or not isinstance(found, dict):
        return
    currency = found.get("currency")
    if currency != cost["currency"]:
        shown = "no currency" if currency is None else currency
        detail = f"the budget is in {cost['currency']}, but the batch is priced in {shown}"
        refuse(source, [FieldFault(pointer="/currency", code="other_currency", detail=detail)])


def _judge(outcome: BudgetOutcome | None, said: Words) -> None:
    """End the program unless the budget is kept."""
    if outcome is None:
        click.echo(said.say("judged_none"), err=True)
        sys.exit(NOT_JUDGED)
    if outcome.status == "over":
        click.echo(said.say("judged_over"), err=True)
        sys.exit(OVER_BUDGET)
    if outcome.status != "within":
        reason = outcome.reason_unknown
        why = f" ({said.name('reason_unknown', reason)})" if reason else ""
        status = said.say(f"budget_{outcome.status}")
        click.echo(said.say("judged_not", status=status, why=why), err=True)
        sys.exit(NOT_JUDGED)


def _end(sentence: str) -> NoReturn:
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(NOT_COMPUTED)
