"""`trainard overlap-audit`: whether communication is hidden, from a step's phases."""

import sys
from typing import Any, Literal

import msgspec
import rich_click as click

from service.calibration.findings import Estimate, OverlapAudit
from service.calibration.step_arithmetic import StepArithmetic
from service.cli.document_options import SOURCE, document_of, options_of
from service.cli.faults import refuse
from service.errors import InvalidError
from service.jobs.overlap_audits import audit_overlap
from service.reports.digits import NOTHING, milliseconds, percent
from service.reports.tables import Heading, text_table

SAID = {
    "overlaps": "it overlaps",
    "does_not_overlap": "it does not overlap",
    "cannot_tell": "these figures cannot tell",
}
HEADINGS = (Heading("", words=True), Heading("low"), Heading("value"), Heading("high"))


@click.command("overlap-audit")
@options_of(StepArithmetic)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `json` for a program: as POST /v1/overlap-audits answers.",
)
def command(*, output_format: Literal["table", "json"], **given: Any) -> None:
    """Tell from a step's phases whether communication is hidden behind compute.

    Give the means over steps of the slowest rank, which waits for nobody:

        trainard overlap-audit --load-ms 30 --compute-ms 300 --communication-ms 80 --step-ms 410

    The answer is an interval that holds the truth, and mostly says that step times alone cannot
    tell. It names the measurement that would settle it, such as a run without synchronisation
    beside the same collectives alone:

        trainard overlap-audit --compute-ms 300 --communication-ms 80 --step-ms 410
        --no-communication-step-ms 370 --isolated-communication-ms 60

    Where there are traces of the PyTorch profiler, trainard calibrate --overlap-only reads them.

    Exit code 2 for figures that no step has.
    """
    try:
        found = audit_overlap(document_of(StepArithmetic, given))
    except InvalidError as error:
        refuse(SOURCE, error.errors)
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    click.echo(audit_text(found))


def audit_text(found: OverlapAudit) -> str:
    """The audit as it is read: the verdict, its numbers, why, and what would settle it."""
    share = found.hidden_share
    rows = [["hidden share [%]", percent(share.low), "", percent(share.high)]]
    for title, estimate in (
        ("transfer [ms]", found.communication_ms),
        ("exposed [ms]", found.exposed_ms),
        ("waiting in it [ms]", found.wait_ms),
    ):
        if estimate is not None:
            rows.append([title, *_ends(estimate)])
    lines = [f"{SAID[found.verdict]} (by {found.route})", "", text_table(HEADINGS, rows), ""]
    lines += [f"because {reason}" for reason in found.reasons]
    for place, experiment in enumerate(found.experiments, start=1):
        lines += [
            "",
            f"{place}. {experiment.name}: {experiment.what_to_do}",
            f"   It tells: {experiment.what_it_tells}",
        ]
    return "\n".join(lines)


def _ends(estimate: Estimate) -> list[str]:
    return [
        NOTHING if end is None else milliseconds(end)
        for end in (estimate.low, estimate.value, estimate.high)
    ]
