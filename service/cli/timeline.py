"""`trainard timeline`: one step of a pipeline, operation by operation, from a file."""

import shutil
import sys
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import rich_click as click

from service.cli.scenario_files import decoded, placed_faults, read_json, refuse_file
from service.jobs.timelines import OF_THE_QUESTION
from service.model.pipeline.schedule import counted
from service.model.pipeline_timeline import timeline_of
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario
from service.model.timeline_documents import Timeline
from service.reports.chrome_trace import chrome_trace
from service.reports.digits import milliseconds, percent
from service.reports.timeline_picture import timeline_legend, timeline_picture, timeline_table


class TimelineFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario; a file that is a scenario itself is one too."""

    scenario: dict[str, Any]


@click.command("timeline")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["picture", "json"]),
    default="picture",
    show_default=True,
    help="`picture` to look at, `json` for a program: every start and end.",
)
@click.option(
    "--chrome-trace",
    "trace",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.",
)
@click.option(
    "--nominal",
    is_flag=True,
    help="Everything at nominal speed. Default: a drawn step where GPUs differ or anything varies.",
)
@click.option(
    "--replica", type=click.IntRange(min=0), metavar="N", help="Default: the slowest replica."
)
def command(
    *,
    file: BinaryIO,
    output_format: str,
    trace: Path | None,
    nominal: bool,
    replica: int | None,
) -> None:
    """Show what each stage of a pipeline does when.

    FILE is JSON: a scenario, or {"scenario": …}; `-` reads standard input:

        trainard timeline pipeline.json

        trainard timeline pipeline.json --chrome-trace step.trace.json

    Of 8 GPUs in a pipeline with 4 micro-batches, 2.91 work on average:

        {"num_gpus": 8, "pipeline": {"schedule": "1f1b", "stages": 8, "microbatches": 4,
        "forward_ms": 10, "backward_ms": 20}}

    Exit code 2 and every fault with its place in the file when it cannot be shown.
    """
    timeline = _timeline(file, nominal=nominal, replica=replica)
    if trace is not None:
        trace.write_bytes(msgspec.json.encode(chrome_trace(timeline)))
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(timeline), indent=2))
        click.echo()
        return
    width = shutil.get_terminal_size().columns
    click.echo(
        f"{timeline_sentence(timeline)}\n\n{timeline_picture(timeline, width=width)}\n"
        f"{timeline_legend(timeline)}\n\n{timeline_table(timeline)}"
    )
    if trace is not None:
        click.echo(f"\n{trace}: open it in ui.perfetto.dev or chrome://tracing")


def timeline_sentence(timeline: Timeline) -> str:
    """What is shown, and what it comes to."""
    chunks = timeline.chunks_per_stage
    parts = [
        f"{timeline.schedule}, {counted(timeline.num_stages, 'stage')}",
        counted(timeline.microbatches, "micro-batch"),
        *([f"{chunks} chunks a stage"] if chunks > 1 else []),
        f"replica {timeline.replica} of {timeline.num_replicas}",
        "at nominal speed" if timeline.draw == "nominal" else "one drawn step",
    ]
    busy = f"{timeline.busy_stages_mean:.2f} of {timeline.num_stages} stages work on average"
    step = "" if timeline.step_ms is None else f", the step {milliseconds(timeline.step_ms)} ms"
    return (
        f"{', '.join(parts)}\n"
        f"the pass takes {milliseconds(timeline.makespan_ms)} ms{step}; {busy}, "
        f"{percent(timeline.bubble_fraction)} % is bubble"
    )


def _timeline(file: BinaryIO, *, nominal: bool, replica: int | None) -> Timeline:
    value = read_json(file)
    wrapped = isinstance(value, dict) and "scenario" in value
    document = decoded(file, value if wrapped else {"scenario": value}, TimelineFile)
    try:
        scenario = decode_scenario(document.scenario)
        return timeline_of(scenario, draw="nominal" if nominal else None, replica=replica)
    except InvalidScenario as error:
        of_options = [fault for fault in error.problems if fault.pointer in OF_THE_QUESTION]
        if of_options:
            raise click.UsageError(of_options[0].detail) from error
        refuse_file(file, placed_faults(error, "/scenario" if wrapped else ""))
