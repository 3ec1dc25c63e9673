"""`trainard back-test`: hold a run against its profile on a running service; list; watch drift."""

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import httpx
import msgspec
import rich_click as click

from service.cli.back_test_formats import back_test_text, drift_text, list_text
from service.cli.finite_numbers import FiniteRange
from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import moment_option, post_once, url_option

PATH: Final = "/v1/back-tests"
PARTED: Final = 3
CANNOT_TELL: Final = 6
_CODES: Final = {"parted": PARTED, "cannot_tell": CANNOT_TELL, "warning": PARTED}
Function = TypeVar("Function", bound=Callable[..., object])


class _Field(NamedTuple):
    """A number of the run, and what is said of it."""

    name: str
    help: str
    kind: click.ParamType[Any] = FiniteRange(min=0)


_FIELDS: Final = (
    _Field("step_mean_ms", "Wall-clock time of all its steps over their number."),
    _Field("num_steps", "Completed steps.", click.IntRange(min=1)),
    _Field("num_gpus", "Default: what the profile says.", click.IntRange(min=1)),
    _Field("step_sd_ms", "Standard deviation of single steps."),
    _Field("step_p50_ms", "Half of its steps are shorter."),
    _Field("step_p95_ms", "95 % of its steps are shorter."),
    _Field("gpu_hours", "What it held, restarts and all."),
    _Field("load_ms", "Loading that a step waits for, mean."),
    _Field(
        "slowest_compute_ms",
        "Compute of the slowest rank of a step, mean; with a pipeline its pass.",
    ),
    _Field("communication_ms", "Communication once the slowest rank has come, mean."),
)


def _run_options(function: Function) -> Function:
    """Add an option for every number of the run."""
    for field in reversed(_FIELDS):
        option = "--" + field.name.replace("_", "-")
        function = click.option(option, field.name, type=field.kind, help=field.help)(function)
    return function


@click.command("back-test")
@click.argument("profile", metavar="PROFILE")
@_run_options
@click.option("--name", metavar="NAME", help="Of the run, once of each revision of the profile.")
@click.option(
    "--observed-at",
    callback=moment_option,
    metavar="MOMENT",
    help="When it ran, e.g. `2025-11-29T06:00:00Z`. Default: now.",
)
@click.option("--calibration", type=click.UUID, metavar="ID", help="Stored timings, not a run.")
@click.option(
    "--tolerance",
    type=FiniteRange(0.001, 0.5),
    help="How far off it may be, as a fraction. Default: 0.05.",
)
@click.option("--list", "lists", is_flag=True, help="List the back-tests of PROFILE instead.")
@click.option("--drift", "drifts", is_flag=True, help="Tell whether runs drift away from PROFILE.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="Of --list."
)
@click.option(
    "--fail-if-parted",
    "judges",
    is_flag=True,
    help="Exit code 3 when it has parted, or drifts; 6 when nobody can tell.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `json` for a program.",
)
@url_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    profile: str,
    name: str | None,
    observed_at: datetime | None,
    calibration: UUID | None,
    tolerance: float | None,
    lists: bool,
    drifts: bool,
    limit: int,
    judges: bool,
    output_format: str,
    url: str,
    **run: float | None,
) -> None:
    """Hold a run against what its profile predicts.

    PROFILE is a slug of the service, or `slug@revision`. The run is told by its steps, or by
    timings that are stored:

        trainard back-test prod-h100 --name job-4711 --step-mean-ms 471.3 --num-steps 20000

        trainard back-test prod-h100 --calibration 01a228d5-8419-71c9-b360-7d854e38e1c4

        trainard back-test prod-h100 --drift --fail-if-parted

    Exit code 0: done; 1: no service, or it refused; 2: what was sent is faulty; 3: the run has
    parted, or runs drift; 6: nobody can tell. 3 and 6 only with `--fail-if-parted`.
    """
    given: Document = {field: value for field, value in run.items() if value is not None}
    if name is not None:
        given["name"] = name
    if observed_at is not None:
        given["observed_at"] = observed_at.isoformat()
    _check(given, calibration, asks=lists or drifts, is_one=lists != drifts)
    with reached(url) as client:
        if drifts:
            query = {"profile": profile}
            found = answered(client.get(f"{PATH}/drift", params=query), "the drift")
            shown, outcome = drift_text(found), found["state"]
        elif lists:
            found = _listed(client, profile, limit)
            shown, outcome = list_text(found["items"]), ""
        else:
            found = _tested(client, profile, given, calibration, tolerance)
            shown, outcome = back_test_text(found), found["verdict"]
    if output_format == "json":
        shown = msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
    click.echo(shown)
    sys.exit(_CODES.get(outcome, 0) if judges else 0)


def _check(given: Document, calibration: UUID | None, *, asks: bool, is_one: bool) -> None:
    """Refuse options that do not go together."""
    if asks:
        if given or calibration or not is_one:
            raise click.UsageError("--list and --drift stand alone")
        return
    if calibration is not None:
        if given:
            raise click.UsageError("a calibration has its own steps: name it alone")
        return
    missing = [
        f"--{field.replace('_', '-')}"
        for field in ("name", "step_mean_ms", "num_steps")
        if field not in given
    ]
    if missing:
        raise click.UsageError(f"a run needs {', '.join(missing)}; or name a --calibration")


def _tested(
    client: httpx.Client,
    profile: str,
    run: Document,
    calibration: UUID | None,
    tolerance: float | None,
) -> Document:
    body: Document = {"profile": profile}
    if calibration is None:
        body["run"] = run
    else:
        body["calibration"] = str(calibration)
    if tolerance is not None:
        body["tolerance_fraction"] = tolerance
    return post_once(client, PATH, msgspec.json.encode(body), source="the back-test", key=None)


def _listed(client: httpx.Client, profile: str, limit: int) -> Document:
    slug = profile.partition("@")[0]
    found = answered(
        client.get(PATH, params={"profile": slug, "page_size": str(limit)}), "the list"
    )
    if not found["items"]:
        # A profile that is not there has none either: the other question tells them apart.
        answered(client.get(f"{PATH}/drift", params={"profile": slug}), "the list")
    return found
