"""The `trainard` program: its commands, each imported only when it is called.

A command may import what it needs at its top (SciPy, Litestar and alembic take 0.2-0.3 s each), and
`trainard --help` still answers at once, from the summaries below.
"""

import gc
from importlib import import_module
from typing import Any, NamedTuple

import rich_click as click

from service import __doc__ as product
from service.cli.faults import system_refusals


class Entry(NamedTuple):
    """Where a command lives and what it does; a test keeps it equal to the command's own help."""

    module: str
    summary: str


COMMANDS = {
    "serve": Entry("serve", "Run the service."),
    "worker": Entry("worker", "Compute batches of a PostgreSQL database."),
    "demo": Entry("demo", "Start a service, post the example batch and print what it loses."),
    "evaluate": Entry("evaluate", "Compute one scenario, or a grid of them, from a file."),
    "remedies": Entry("remedies", "Rank what can be done about the loss of a scenario."),
    "pipeline-search": Entry(
        "pipeline_search", "Search the pipeline that does a job with the least loss."
    ),
    "solve": Entry("solve", "Find the input that keeps a promise about a result."),
    "timeline": Entry("timeline", "Show what each stage of a pipeline does when."),
    "link-presets": Entry("link_presets", "List dated links, with their sources."),
    "nccl-tests": Entry(
        "nccl_tests", "Turn an output of nccl-tests into a scenario's communication."
    ),
    "calibrate": Entry(
        "calibrate", "Fit scenario parts to observed timings, and say what they cannot tell."
    ),
    "overlap-audit": Entry(
        "overlap_audit",
        "Tell from a step's phases whether communication is hidden behind compute.",
    ),
    "coarse-start": Entry(
        "coarse_start",
        "Start from p50 and p95 of step times, with the wide interval that they leave.",
    ),
    "recorder": Entry("recorder", "Print the recorder for a PyTorch loop."),
    "back-test": Entry("back_test", "Hold a run against what its profile predicts."),
    "submit": Entry("submit", "Post a batch to a running service."),
    "cancel": Entry("cancel", "Stop a batch; what is finished is kept."),
    "retry": Entry("retry", "Compute what a batch has left."),
    "schedule": Entry("schedule", "Make, change and run what is computed every night."),
    "report": Entry("report", "List, show, save and make loss reports."),
    "run-report": Entry(
        "run_report",
        "Compute now what is lost in 30 days, and fail a build that is over its budget.",
    ),
    "history": Entry("history", "Show how the loss moves over time, and why."),
    "export": Entry("export", "Save results of a running service in a file."),
    "import-rates": Entry("import_rates", "Store dated GPU-hour rates from a CSV file."),
    "backup": Entry("backup", "Copy the embedded database into one file while it serves."),
    "restore": Entry("restore", "Put a copy in the place of the embedded database."),
    "webhook": Entry("webhook", "Make, list, change, rotate, try and delete webhook endpoints."),
    "delivery": Entry("delivery", "List, show, repeat and call off deliveries."),
    "key": Entry("key", "Make, list and revoke API keys."),
    "team": Entry("team", "Make, list and change teams."),
    "audit": Entry("audit", "Check, export or prune the audit trail."),
    "prune": Entry("prune", "Delete old batches."),
    "migrate": Entry("migrate", "Bring a database to the newest tables."),
    "openapi": Entry("openapi", "Print, write or check the OpenAPI document."),
}


class LazyGroup(click.RichGroup):
    """A group that knows its commands by name and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """What the list of commands shows of one; no import."""
        entry = COMMANDS.get(cmd_name)
        return entry and click.RichCommand(name=cmd_name, help=entry.summary)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the called command; what the system refuses is a sentence."""
        with system_refusals():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The called command itself."""
        name, shown, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else shown, rest


def load(name: str | None) -> click.Command | None:
    """Import one command; None when there is none of that name."""
    entry = COMMANDS.get(name or "")
    if entry is None:
        return None
    # What is imported stays to the end: searching it for garbage is a sixth of a command's start.
    gc.disable()
    try:
        command = import_module(f"service.cli.{entry.module}").command
    finally:
        gc.freeze()
        gc.enable()
    if not isinstance(command, click.Command):
        raise TypeError(f"service.cli.{entry.module}.command is {command!r}, but must be a command")
    return command


@click.group(
    cls=LazyGroup,
    help=f"""{product}

    Start here: `trainard demo` runs everything once with made-up clusters and prints what to try
    next. Then `trainard serve`, and `trainard COMMAND --help` for an example of each command.
    """,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="trainard", message="%(prog)s %(version)s")
@click.rich_config(help_config={"text_markup": "markdown", "show_arguments": True})
def program() -> None:
    """Group of all commands."""
