"""Schedules of a running service: where they are, and how they are asked for."""

import json
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

import httpx
import rich_click as click

from service.cli.service_answers import Document, answered

SCHEDULES = "/v1/schedules"
Function = TypeVar("Function", bound=Callable[..., object])

slug_argument = click.argument("slug", metavar="SCHEDULE")
format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `json` for a program.",
)


def path_of(slug: str, suffix: str = "") -> str:
    """The path of a schedule, by its slug or id."""
    return f"{SCHEDULES}/{quote(slug, safe='')}{suffix}"


def get(client: httpx.Client, path: str, **query: str | None) -> Document:
    """A document of the service."""
    given = {name: value for name, value in query.items() if value is not None}
    return answered(client.get(path, params=given), path)


def get_all(client: httpx.Client, path: str, **query: str | None) -> list[Document]:
    """All items of a list, page by page."""
    found: list[Document] = []
    token: str | None = None
    while True:
        page = get(client, path, **query, page_token=token, page_size="1000")
        found += page["items"]
        token = page["next_page_token"]
        if token is None:
            return found


def show(document: object, lines: Sequence[str], output_format: str) -> None:
    """Print a document: its lines, or itself for a program."""
    if output_format == "json":
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        click.echo("\n".join(lines))
