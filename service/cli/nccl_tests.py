"""`trainard nccl-tests`: what nccl-tests printed, as a scenario's communication."""

import sys
from typing import BinaryIO, NoReturn

import msgspec
import rich_click as click

from service.cli.scenario_files import refuse_file
from service.errors import FieldFault, InvalidError
from service.jobs.communication import read_measurement
from service.jobs.communication_documents import MeasurementIn, MeasurementOut
from service.model.exchange.nccl_lines import COLUMNS, MeasuredColumn
from service.model.exchange.nccl_tests import MAX_TEXT
from service.reports.tables import Heading, text_table

HEADINGS = (Heading("size [bytes]"), Heading("time [ms]"), Heading("bus bandwidth [GB/s]"))


@click.command("nccl-tests")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option(
    "--column",
    type=click.Choice(COLUMNS),
    default="in_place",
    show_default=True,
    help="Whose times to take; frameworks reduce in place.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["json", "table"]),
    default="json",
    show_default=True,
    help="`json`: the `communication` to put into a scenario; `table` to read.",
)
def command(*, file: BinaryIO, column: MeasuredColumn, output_format: str) -> None:
    """Turn an output of nccl-tests into a scenario's communication.

    FILE is what `all_reduce_perf` of nccl-tests or rccl-tests printed; `-` reads standard input:

        all_reduce_perf -b 1M -e 8G -f 2 -g 8 | tee log.txt

        trainard nccl-tests log.txt > communication.json

    Add `message_bytes`, or `parameters`, to what is printed. Every row is checked against itself.
    Exit code 2 and the line when the output cannot be used, such as one in other units, of another
    collective, or cut off.
    """
    try:
        found = read_measurement(MeasurementIn(text=_text(file), column=column))
    except InvalidError as error:
        refuse_file(file, error.errors)
    for warning in found.warnings:
        click.echo(f"note: {warning.detail}", err=True)
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.encode(_written(found)) + b"\n")
        return
    click.echo(text_table(HEADINGS, _cells(found)))


def _text(file: BinaryIO) -> str:
    """The file's text; one byte beyond the limit tells that it is longer."""
    read = file.read(MAX_TEXT + 1)
    if len(read) > MAX_TEXT:
        _refuse(file, f"more than {MAX_TEXT} bytes, which is the limit")
    try:
        return read.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(file, f"this is not UTF-8: {error.reason} at byte {error.start}")


def _refuse(file: BinaryIO, detail: str) -> NoReturn:
    refuse_file(file, [FieldFault(pointer="", code="unreadable_measurement", detail=detail)])


def _written(found: MeasurementOut) -> dict[str, object]:
    """The communication without what is left at its default."""
    document: dict[str, object] = {
        "kind": "measured",
        "sizes_bytes": found.communication.sizes_bytes,
        "times_ms": found.communication.times_ms,
    }
    if found.num_ranks is not None:
        document["measured_num_ranks"] = found.num_ranks
    return document


def _cells(found: MeasurementOut) -> list[list[str]]:
    curve = found.communication
    return [
        [f"{size:.0f}", f"{time:.6g}", f"{busbw:.6g}"]
        for size, time, busbw in zip(
            curve.sizes_bytes, curve.times_ms, found.busbw_gigabytes_per_s, strict=True
        )
    ]
