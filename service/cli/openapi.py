"""`trainard openapi`: the API description, printed, written or compared with the committed one."""

import difflib
import tempfile
from itertools import islice
from pathlib import Path

import rich_click as click

from service.api import openapi
from service.app import create_app
from service.settings import Settings

COMMITTED = Path("openapi/openapi.json")
SHOWN_LINES = 60


@click.command("openapi")
@click.option(
    "--write",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the document to this file.",
)
@click.option(
    "--check",
    is_flag=True,
    help=f"Compare with `{COMMITTED}`; exit code 1 and the difference when it is out of date.",
)
def command(*, target: Path | None, check: bool) -> None:
    """Print, write or check the OpenAPI document.

    The same document as a running service gives at /openapi.json, for generating clients:

        trainard openapi > openapi.json
    """
    text = document()
    if check:
        _compare(text)
    elif target is None:
        click.echo(text, nl=False)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        click.echo(f"Wrote {target}", err=True)


def document() -> str:
    """The OpenAPI document as JSON text, whatever this installation's settings are."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(database_url=f"sqlite:///{folder}/unused.db"))
        return openapi.render(openapi.document(app)).decode()


def _compare(text: str) -> None:
    committed = COMMITTED.read_text(encoding="utf-8") if COMMITTED.is_file() else ""
    if committed == text:
        click.echo(f"{COMMITTED} is up to date")
        return
    difference = difflib.unified_diff(
        committed.splitlines(), text.splitlines(), str(COMMITTED), "the application", lineterm=""
    )
    click.echo("\n".join(islice(difference, SHOWN_LINES)), err=True)
    raise click.ClickException(f"{COMMITTED} is out of date: run make openapi and read the change")
