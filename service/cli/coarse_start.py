"""`trainard coarse-start`: what p50 and p95 of step times tell, and what they leave open."""

import sys
from typing import Any, Literal

import msgspec
import rich_click as click

from service.calibration.coarse import StepQuantiles
from service.calibration.findings import Coarse, Estimate
from service.cli.document_options import SOURCE, document_of, options_of
from service.cli.faults import refuse
from service.errors import InvalidError
from service.jobs.coarse_calibrations import start_coarsely
from service.reports.digits import gpu_hours, milliseconds, percent
from service.reports.tables import Heading, text_table

HEADINGS = (
    Heading("all of the spread is", words=True),
    Heading("family", words=True),
    Heading("compute [ms]"),
    Heading("cv [%]"),
    Heading("mean step [ms]"),
    Heading("lost [GPU-hours]"),
)
OF_WHOM = {"transient": "each GPU's own", "common": "common to all"}


@click.command("coarse-start")
@options_of(StepQuantiles)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `json` for a program: as POST /v1/coarse-calibrations answers.",
)
def command(*, output_format: Literal["table", "json"], **given: Any) -> None:
    """Start from p50 and p95 of step times, with the wide interval that they leave.

    For those who have no timings by rank. Each line is a whole scenario with these quantiles:

        trainard coarse-start --num-gpus 1024 --step-p50-ms 458 --step-p95-ms 470 --load-ms 30
        --communication-ms 80

    Whether each GPU or all together are slower in some steps the quantiles do not tell, and a GPU
    that is slow all the time is invisible in them: record each rank (`trainard recorder`) to know.
    The JSON holds the scenarios. Exit code 2 for quantiles that no run has.
    """
    try:
        found = start_coarsely(document_of(StepQuantiles, given))
    except InvalidError as error:
        refuse(SOURCE, error.errors)
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    click.echo(_shown(found))


def _shown(found: Coarse) -> str:
    days = found.readings[0].overrides["period_days"]
    rows = [
        [
            OF_WHOM[reading.hypothesis],
            reading.overrides["variability"][reading.hypothesis]["kind"],
            milliseconds(reading.compute_ms),
            percent(reading.cv),
            milliseconds(reading.step_mean_ms),
            gpu_hours(reading.gpu_hours_lost),
        ]
        for reading in found.readings
    ]
    lost = found.gpu_hours_lost
    lost_line = f"lost in {days} days: {gpu_hours(lost.low)} to {gpu_hours(lost.high)} GPU-hours"
    lines = [
        f"{lost_line}, and what a GPU costs that is slow all the time",
        f"transient cv: {_ends(found.transient_cv)}",
        "",
        text_table(HEADINGS, rows),
        "",
        *(f"note: {warning.detail}" for warning in found.warnings),
        *(f"unknown: {field.path}: {field.reason} {field.what_to_do}" for field in found.unknown),
    ]
    return "\n".join(lines)


def _ends(estimate: Estimate) -> str:
    if estimate.high is None:
        return f"{percent(estimate.low)} % and more"
    return f"{percent(estimate.low)} to {percent(estimate.high)} %"
