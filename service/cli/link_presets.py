"""`trainard link-presets`: the dated links that a scenario may name."""

import sys

import msgspec
import rich_click as click

from service.jobs.communication import link_presets
from service.model.exchange.presets import LinkValues
from service.reports.tables import Heading, text_table

HEADINGS = (
    Heading("preset", words=True),
    Heading("evidence", words=True),
    Heading("bandwidth [GB/s]"),
    Heading("efficiency"),
    Heading("latency [us]"),
    Heading("round trip [ms]"),
    Heading("window [MB]"),
)


@click.command("link-presets")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `json` for a program: as GET /v1/link-presets answers.",
)
@click.option("--sources", is_flag=True, help="Say below the table where each value comes from.")
def command(*, output_format: str, sources: bool) -> None:
    """List dated links, with their sources.

    Bandwidth is of one GPU in one direction. A scenario names a preset, and may replace its values:

        trainard link-presets --sources

        {"communication": {"kind": "ring", "message_bytes": 2e9, "link":
        {"preset": "ethernet_25_2026_11", "latency_us": 30}}}

    `measured` values were read from a run, `published` ones stand in a source, `assumed` ones are
    this program's choice: replace them with your own.
    """
    found = link_presets()
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    click.echo(text_table(HEADINGS, [_cells(preset) for preset in found.items]))
    if sources:
        for preset in found.items:
            click.echo(f"\n{preset.name} ({preset.dated_on}): {preset.provenance}")


def _cells(preset: LinkValues) -> list[str]:
    window = None if preset.window_bytes is None else preset.window_bytes / 1e6
    return [
        preset.name,
        preset.evidence,
        *(
            "" if value is None else f"{value:.6g}"
            for value in (
                preset.bandwidth_gigabytes_per_s,
                preset.efficiency_fraction,
                preset.latency_us,
                preset.round_trip_ms,
                window,
            )
        ),
    ]
