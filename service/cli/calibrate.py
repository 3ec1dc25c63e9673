"""`trainard calibrate`: observed timings as fitted scenario parts, read where they are."""

import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
import rich_click as click

from service.calibration.findings import Findings, OverlapAudit
from service.calibration.options import CalibrationOptions
from service.calibration.refusals import TimingsRefusedError
from service.cli.calibration_formats import findings_text
from service.cli.calibration_sending import accepted, called, stored, target
from service.cli.document_options import SOURCE, document_of, options_of
from service.cli.export_progress import progress_bar
from service.cli.faults import refuse
from service.cli.overlap_audit import audit_text
from service.cli.service_answers import reached
from service.cli.submission_options import url_option
from service.errors import FieldFault
from service.jobs.calibration_work import SpooledFile, audit, find

Told = TypeVar("Told", Findings, OverlapAudit)

BLOCK_BYTES: Final = 1024 * 1024


@click.command("calibrate")
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
)
@options_of(CalibrationOptions)
@click.option(
    "--store", "stores", is_flag=True, help="Send the files to a service, which keeps it."
)
@click.option(
    "--overlap-only",
    "asks_overlap",
    is_flag=True,
    help="Say only whether communication is hidden: three steps of traces are enough.",
)
@click.option("--name", metavar="NAME", help="Of what is stored. Default: the first file's name.")
@click.option("--profile", metavar="SLUG", help="The profile that the timings are of, if stored.")
@click.option(
    "--accept-into",
    metavar="SLUG",
    help="Store it, and make a revision of this profile of all that is proposed.",
)
@click.option("--gpu-type", metavar="TYPE", help="Of a profile that is not there yet.")
@click.option(
    "--idempotency-key", metavar="KEY", help="The same key and files make one calibration."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `json` for a program: the findings, or what was stored.",
)
@url_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    files: tuple[Path, ...],
    stores: bool,
    asks_overlap: bool,
    name: str | None,
    profile: str | None,
    accept_into: str | None,
    gpu_type: str | None,
    idempotency_key: str | None,
    output_format: Literal["table", "json"],
    url: str,
    **given: Any,
) -> None:
    """Fit scenario parts to observed timings, and say what they cannot tell.

    FILE is a table with step, rank and compute_ms (CSV, Parquet, JSON Lines), a trace of the
    PyTorch profiler for each rank, per-operation Parquet, or nccl-tests output beside them; each
    may be gzipped. The files are read on this machine and go nowhere:

        trainard calibrate timings.csv

        trainard calibrate rank*.json.gz --skip-steps 5

    Traces of few steps tell only whether communication is hidden behind compute:

        trainard calibrate rank*.json.gz --overlap-only

    With --store they are sent to a service (--url), which keeps what it finds but not the files:

        trainard calibrate timings.csv --accept-into prod-h100

    Exit code 1: no service, or it refused; 2: the timings are refused, with every reason.
    """
    options = document_of(CalibrationOptions, given)
    _refuse_pipes(files)
    if not (stores or accept_into):
        for option, value in (("--name", name), ("--profile", profile), ("--gpu-type", gpu_type)):
            if value is not None:
                raise click.UsageError(f"{option} says something of what is stored: add --store")
        if asks_overlap:
            _print_audit(output_format, _read(audit, files, options))
        else:
            _print(output_format, _read(find, files, options))
        return
    if asks_overlap:
        raise click.UsageError("--overlap-only is of files on this machine: leave --store out")
    with reached(url) as client:
        if accept_into is not None:
            # Before anything is sent: what is stored stays, whatever comes of the profile.
            target(client, accept_into, gpu_type)
        query = {"name": name, "profile": profile, **_said(options)}
        calibration = stored(client, files, query, key=idempotency_key)
        _print(output_format, calibration)
        click.echo(f"Stored as {calibration['id']}.", err=True)
        if accept_into is not None:
            revision = accepted(client, calibration, accept_into, gpu_type)
            click.echo(f"Accepted as {revision['slug']}@{revision['revision']}.", err=True)


def _refuse_pipes(files: Sequence[Path]) -> None:
    """Each file is read more than once, and by another process."""
    faults = [
        FieldFault(
            pointer=str(file),
            code="no_regular_file",
            detail="it is no regular file, and can be read once only; write it to a file first, "
            "which may be gzipped",
        )
        for file in files
        if not file.is_file()
    ]
    if faults:
        refuse(SOURCE, faults)


def _read(
    question: Callable[..., Told], files: Sequence[Path], options: CalibrationOptions
) -> Told:
    """What a process of its own tells; ends the program with every reason to refuse them."""
    spooled = [_spooled(file) for file in files]
    total = sum(file.num_bytes for file in spooled)
    try:
        with progress_bar() as update:
            update("reading", 0, total)
            return question(spooled, options, progress=lambda done: update("reading", done, total))
    except TimingsRefusedError as error:
        faults = [
            FieldFault(
                pointer=(fault.file or "") + (f":{fault.line}" if fault.line is not None else ""),
                code=fault.code,
                detail=fault.detail,
            )
            for fault in error.faults
        ]
        refuse(called(files), faults)


def _print_audit(output_format: str, found: OverlapAudit) -> None:
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    click.echo(audit_text(found))


def _spooled(file: Path) -> SpooledFile:
    digest, num_bytes = hashlib.sha256(), 0
    with file.open("rb") as opened:
        while block := opened.read(BLOCK_BYTES):
            digest.update(block)
            num_bytes += len(block)
    return SpooledFile(
        # The other process has no standard input.
        name=str(file),
        path=str(file.resolve()),
        num_bytes=num_bytes,
        sha256=digest.hexdigest(),
    )


def _said(options: CalibrationOptions) -> dict[str, Any]:
    """The query of a request: what is left at its default is the service's own."""
    default = CalibrationOptions()
    return {
        field: value
        for field in CalibrationOptions.__struct_fields__
        if (value := getattr(options, field)) != getattr(default, field)
    }


def _print(output_format: str, found: Findings | dict[str, Any]) -> None:
    if output_format == "json":
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    told = found if isinstance(found, Findings) else msgspec.convert(found["findings"], Findings)
    click.echo(findings_text(told))
