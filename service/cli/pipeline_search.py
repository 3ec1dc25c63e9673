"""`trainard pipeline-search`: which pipeline does a job with the least loss, from a file."""

import sys
from typing import Any, BinaryIO

import msgspec
import rich_click as click

from service.cli.hand_rates import rates_by_hand
from service.cli.pipeline_search_formats import FORMATS
from service.cli.scenario_files import decoded, placed_faults, read_json, refuse_file
from service.jobs.pipeline_search import OF_THE_SEARCH, searched
from service.jobs.pipeline_search_documents import CandidatesIn
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario


class SearchFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario and what to try; a file that is a scenario itself tries the defaults."""

    scenario: dict[str, Any]
    search: CandidatesIn = CandidatesIn()


@click.command("pipeline-search")
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
    """Search the pipeline that does a job with the least loss.

    FILE is JSON: a scenario with a pipeline, or {"scenario": …, "search": …}; `-` reads standard
    input:

        trainard pipeline-search scenario.json

        trainard pipeline-search search.json --price 2.10 --currency EUR --format csv > found.csv

    Tried are stages, micro-batches, chunks and schedules for the same job on the same GPUs, e.g.
    "search": {"stages": [4, 8], "microbatches": [8, 16], "chunks_per_stage": [1, 2],
    "schedules": ["1f1b", "zb_h1"], "max_microbatches_in_flight": 8, "max_activation_ratio": 1,
    "max_parameter_ratio": 2, "limit": 10}; lists that are left out have defaults. Micro-batches
    keep their size unless they are listed, or "keep" is "microbatches". Exit code 2 and every fault
    with its place in the file when it cannot be computed.
    """
    rates = rates_by_hand(price, currency)
    value = read_json(file)
    wrapped = isinstance(value, dict) and "scenario" in value
    document = decoded(file, value if wrapped else {"scenario": value}, SearchFile)
    prefix = "/scenario" if wrapped else ""
    try:
        found = searched(decode_scenario(document.scenario), document.search, rates)
    except InvalidScenario as error:
        refuse_file(file, placed_faults(error, prefix, apart=(OF_THE_SEARCH,)))
    FORMATS[output_format](found, sys.stdout.buffer)
