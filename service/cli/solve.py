"""`trainard solve`: the input that keeps a promise about a result, without a service."""

import sys
from typing import Any, BinaryIO

import msgspec
import rich_click as click

from service.cli.evaluation_formats import TABLE_COLUMNS
from service.cli.scenario_files import placed_faults, read_document, refuse_file
from service.jobs.solve import OF_THE_QUESTION, solved
from service.jobs.solve_documents import QuestionIn, SolvedAt, SolveOut
from service.model.problems import InvalidScenario
from service.model.results import COLUMNS
from service.model.scenario import decode_fields
from service.reports.digits import whole
from service.reports.tables import Heading, shown_value, text_table


class QuestionFile(QuestionIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question with its scenario."""

    scenario: dict[str, Any]


@click.command("solve")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `json` for a program: as POST /v1/evaluations/solve answers.",
)
def command(*, file: BinaryIO, output_format: str) -> None:
    """Find the input that keeps a promise about a result.

    FILE is JSON; `-` reads standard input:

        trainard solve question.json

    The largest cluster that stays 90 % efficient:

        {"scenario": {"num_gpus": 1024, "load_ms": 30, "compute_ms": 300, "communication":
        {"kind": "fixed", "allreduce_ms": 80}, "variability": {"transient": {"kind": "normal",
        "cv": 0.05}}}, "unknown": {"path": "num_gpus"}, "seek": "largest",
        "target": {"column": "efficiency_fraction", "at_least": 0.9}}

    Other questions, each with the scenario that has the unknown:

        bandwidth for 95 % utilization: "unknown": {"path":
        "communication.link.bandwidth_gigabytes_per_s"}, "seek": "smallest",
        "target": {"column": "useful_compute_fraction", "at_least": 0.95}

        local steps H for a target: "unknown": {"path": "synchronization.steps"},
        "seek": "smallest", "target": {"column": "useful_compute_fraction", "at_least": 0.9}

        staleness that hides a delay: "unknown": {"path": "synchronization.staleness"},
        "seek": "smallest", "target": {"column": "exposed_communication_ms", "at_most": 0}

        largest round trip: "unknown": {"path": "communication.link.round_trip_ms"},
        "seek": "largest", "target": {"column": "useful_compute_fraction", "at_least": 0.8}

        fewest micro-batches of a pipeline: "unknown": {"path": "pipeline.microbatches"},
        "seek": "smallest", "target": {"column": "bubble_fraction", "at_most": 0.1}

        most stages of it: "unknown": {"path": "pipeline.stages"}, "seek": "largest",
        "target": {"column": "efficiency_fraction", "at_least": 0.6}

    Exit code 0 with the answer, also that no value keeps the promise; 2 and every fault with its
    place in the file when the question cannot be asked.
    """
    document = read_document(file, QuestionFile)
    try:
        answered = solved(decode_fields(document.scenario), document)
    except InvalidScenario as error:
        refuse_file(file, placed_faults(error, "/scenario", apart=OF_THE_QUESTION))
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.encode(answered) + b"\n")
        return
    for warning in answered.warnings:
        click.echo(f"note: {warning.detail}", err=True)
    click.echo(f"{answered.detail}\n\n{_table(document, answered)}")


def _table(document: QuestionFile, answered: SolveOut) -> str:
    """The answer beside its neighbour: the target, and what a grid's table shows."""
    path, name = document.unknown.path, document.target.column
    columns = [column for column in COLUMNS if column.name == name or column in TABLE_COLUMNS]
    headings = [Heading(path), Heading("keeps the promise", words=True)]
    headings += [Heading(f"{column.name} [{shown_value(column, None)[1]}]") for column in columns]
    places = [(answered.at_value, "yes"), (answered.at_neighbor, "no"), (answered.nearest, "no")]
    return text_table(
        headings,
        [
            [_number(place), kept]
            + [shown_value(column, getattr(place.result, column.name))[0] for column in columns]
            for place, kept in places
            if place is not None
        ],
    )


def _number(place: SolvedAt) -> str:
    return whole(place.value) if isinstance(place.value, int) else f"{place.value:.10g}"
