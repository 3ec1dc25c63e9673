"""`trainard remedies`: what can be done about the loss of a scenario, from a file."""

import sys
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec
import rich_click as click

from service.cli.faults import refuse
from service.cli.hand_rates import rates_by_hand
from service.cli.remedy_formats import FORMATS
from service.errors import FieldFault, InvalidError
from service.jobs.batch_documents import RemedyRequests
from service.jobs.documents import decode_document
from service.jobs.remedies import Resolved, answer
from service.jobs.remedy_items import request_faults
from service.model.fields import Scenario
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario


class RemediesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario and the remedies to try; a file that is a scenario itself tries all."""

    scenario: dict[str, Any]
    remedies: RemedyRequests = []


@click.command("remedies")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    default="table",
    show_default=True,
    help="`table` to read, `csv` for a spreadsheet, `json` for a program.",
)
@click.option("--price", metavar="AMOUNT", help="Price of a GPU-hour, e.g. 2.10; shows money.")
@click.option("--currency", metavar="CODE", help="Currency of --price, e.g. EUR.")
def command(*, file: BinaryIO, output_format: str, price: str | None, currency: str | None) -> None:
    """Rank what can be done about the loss of a scenario.

    FILE is JSON: a scenario, or {"scenario": …, "remedies": […]}; `-` reads standard input:

        trainard remedies scenario.json

        trainard remedies scenario.json --price 2.10 --currency EUR --format csv > remedies.csv

    Each remedy is computed anew, and gives back the difference of the GPU-hours lost. Remedies are
    e.g. [{"kind": "hot_spares", "counts": [1, 2, 4]}, {"kind": "local_steps", "steps": [10, 100],
    "extra_steps_fraction": 0.02}, {"kind": "overlap_buckets", "num_buckets": [8, 25]},
    {"kind": "more_microbatches", "microbatches": [16, 32]}]; without the list all kinds are tried,
    and those that do not apply are named with the reason. Exit code 2 and every fault with its
    place in the file when it cannot be computed.
    """
    rates = rates_by_hand(price, currency)
    scenario, document = _read(file)
    try:
        found = answer(Resolved(scenario=scenario, requests=document.remedies, rates=rates))
    except InvalidError as error:
        refuse(_name(file), error.errors)
    FORMATS[output_format](found, sys.stdout.buffer)


def _read(file: BinaryIO) -> tuple[Scenario, RemediesFile]:
    name = _name(file)
    value = _decoded(file, name)
    wrapped = isinstance(value, dict) and "scenario" in value
    try:
        document = decode_document(value if wrapped else {"scenario": value}, RemediesFile)
        scenario = decode_scenario(document.scenario)
    except InvalidError as error:
        refuse(name, error.errors)
    except InvalidScenario as error:
        prefix = "/scenario" if wrapped else ""
        refuse(
            name,
            [
                FieldFault(pointer=prefix + fault.pointer, code=fault.code, detail=fault.detail)
                for fault in error.problems
            ],
        )
    faults = request_faults(document.remedies, "/remedies")
    if faults:
        refuse(name, faults)
    return scenario, document


def _name(file: BinaryIO) -> str:
    return str(file.name) if isinstance(file.name, str | Path) else "standard input"


def _decoded(file: BinaryIO, name: str) -> Any:
    try:
        return msgspec.json.decode(file.read())
    except (msgspec.DecodeError, RecursionError) as error:
        _refuse_text(name, error)


def _refuse_text(name: str, error: Exception) -> NoReturn:
    detail = f"this is no JSON: {error}"
    refuse(name, [FieldFault(pointer="", code="malformed_json", detail=detail)])
