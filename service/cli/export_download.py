"""Have a file made by a service, and bring it here whole, whatever breaks on the way.

Until it is whole it is `FILE.part`, and `FILE.part.json` says which file of the service it is a
part of, so that the next call goes on instead of beginning again.
"""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import rich_click as click

from service.cli.export_progress import OnProgress
from service.cli.service_answers import Document, answered
from service.cli.submission_options import post_once

PATH = "/v1/exports"
ASK_EVERY_S = 0.25
READ_BYTES = 1024 * 1024
# Attempts in a row that bring not one byte.
MAX_IDLE_TRIES = 5
RECONNECT_S = 1.0


class Attempt(msgspec.Struct, kw_only=True):
    """What `FILE.part.json` remembers."""

    address: str
    body: dict[str, Any]
    key: str
    export_id: str | None = None


def fetch(client: httpx.Client, body: Document, output: Path, on_progress: OnProgress) -> Document:
    """Bring the file here and check it; returns the document of the export.

    Goes on with the parts of an earlier call for the same thing, as long as the service keeps
    that file. Ends the program when the service refuses it or the file is not what it said.
    """
    part, memory = Path(f"{output}.part"), Path(f"{output}.part.json")
    attempt = _earlier(memory, client, body)
    if attempt is None:
        part.unlink(missing_ok=True)
        attempt = Attempt(address=str(client.base_url), body=body, key=str(uuid4()))
        _remember(memory, attempt)
    export = _made(client, attempt, memory, on_progress)
    digest = _download(client, export, part, on_progress)
    if digest != export["sha256"]:
        part.unlink()
        memory.unlink()
        raise click.ClickException(
            f"{output}: SHA-256 is {digest}, but the service's file has {export['sha256']}; what "
            "was received is deleted, try again"
        )
    sidecar = answered(client.get(export["sidecar_url"]), str(output))
    Path(f"{output}.sidecar.json").write_text(
        json.dumps(sidecar, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    part.replace(output)
    memory.unlink()
    return export


def _earlier(memory: Path, client: httpx.Client, body: Document) -> Attempt | None:
    """What an earlier call for the same thing has begun, if the service still has it."""
    try:
        attempt = msgspec.json.decode(memory.read_bytes(), type=Attempt)
    except (OSError, msgspec.DecodeError):
        return None
    if (attempt.address, attempt.body) != (str(client.base_url), body):
        return None
    if attempt.export_id is not None:
        found = client.get(f"{PATH}/{attempt.export_id}")
        if found.status_code == httpx.codes.NOT_FOUND or found.json().get("state") == "failed":
            return None
    return attempt


def _remember(memory: Path, attempt: Attempt) -> None:
    memory.write_bytes(msgspec.json.encode(attempt))


def _made(
    client: httpx.Client, attempt: Attempt, memory: Path, on_progress: OnProgress
) -> Document:
    """The export once its file is there."""
    if attempt.export_id is None:
        body = msgspec.json.encode(attempt.body)
        export = post_once(client, PATH, body, source="the export", key=attempt.key)
        attempt.export_id = export["id"]
        _remember(memory, attempt)
    else:
        export = answered(client.get(f"{PATH}/{attempt.export_id}"), "the export")
    while export["state"] not in {"succeeded", "failed"}:
        on_progress(f"{export['state']}: rows", export["rows"] or 0, None)
        time.sleep(ASK_EVERY_S)
        export = answered(client.get(f"{PATH}/{export['id']}"), "the export")
    if export["state"] == "failed":
        memory.unlink()
        raise click.ClickException(f"the file could not be made: {export['failure']}")
    if export["content_url"] is None:
        memory.unlink()
        raise click.ClickException(
            "the file was asked for with costs, which this key may not see any more: it needs the "
            "scope costs:read; asked for again, the file comes without costs"
        )
    return export


def _download(client: httpx.Client, export: Document, part: Path, on_progress: OnProgress) -> str:
    """Bring what is missing of the file; returns the SHA-256 of all of it."""
    digest, size = _hash_of(part)
    if size > export["bytes"]:
        part.unlink()
        digest, size = _hash_of(part)
    idle = 0
    with part.open("ab") as file:
        while size < export["bytes"]:
            before = size
            try:
                for received in _rest(client, export, size):
                    file.write(received)
                    digest.update(received)
                    size += len(received)
                    on_progress("receiving", size, export["bytes"])
            except httpx.TransportError as error:
                idle = 0 if size > before else idle + 1
                if idle == MAX_IDLE_TRIES:
                    raise click.ClickException(
                        f"the connection breaks again and again ({error or type(error).__name__}); "
                        f"{size} of {export['bytes']} bytes are in {part}: give the same command "
                        "again to go on"
                    ) from error
                time.sleep(RECONNECT_S)
    found: str = digest.hexdigest()
    return found


def _rest(client: httpx.Client, export: Document, first: int) -> Iterator[bytes]:
    """The bytes from `first` on, as they come."""
    headers = {
        "Range": f"bytes={first}-",
        "If-Range": f'"{export["sha256"]}"',
        # A range of packed bytes would be no part of the file.
        "Accept-Encoding": "identity",
    }
    with client.stream("GET", export["content_url"], headers=headers) as response:
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            response.read()
            answered(response, "the export")
            raise click.ClickException(
                f"{response.request.url} answered {response.status_code} instead of the rest of "
                "the file"
            )
        yield from response.iter_bytes()


def _hash_of(path: Path) -> tuple[Any, int]:
    """The running SHA-256 and the size of a file; of nothing when it is not there."""
    digest = hashlib.sha256()
    size = 0
    if path.exists():
        with path.open("rb") as file:
            while data := file.read(READ_BYTES):
                digest.update(data)
                size += len(data)
    return digest, size
