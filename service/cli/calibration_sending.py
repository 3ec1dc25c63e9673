"""Sending timings to a running service, and having a profile made of what it finds."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx

from service.cli.service_answers import Document, answered
from service.cli.submission_options import TRIES

PATH: Final = "/v1/calibrations"
PROFILES: Final = "/v1/cluster-profiles"
# Sending, reading and fitting; the service has limits of its own
ANSWER_TIMEOUT_S: Final = 1_800.0


def stored(
    client: httpx.Client, files: Sequence[Path], query: Mapping[str, Any], *, key: str | None
) -> Document:
    """The stored calibration; ends the program with every reason that the service gives.

    A connection that breaks is tried again: the key makes that harmless.
    """
    said = {name: _text(value) for name, value in query.items() if value is not None}
    headers = {"Idempotency-Key": key or str(uuid4())}
    source = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    for attempt in range(1, TRIES + 1):
        try:
            return answered(_sent(client, files, said, headers), source)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            if attempt == TRIES:
                raise
    raise AssertionError


def accepted(
    client: httpx.Client, calibration: Document, slug: str, gpu_type: str | None
) -> Document:
    """The revision of the profile; one that is not there is made, of the GPU type."""
    body: Document = {"profile": slug}
    there = client.get(f"{PROFILES}/{slug}")
    if there.status_code != httpx.codes.NOT_FOUND:
        body["profile_version"] = answered(there, slug)["version"]
    elif gpu_type is not None:
        body["new_profile"] = {"name": slug, "gpu_type": gpu_type}
    return answered(
        client.post(f"{PATH}/{calibration['id']}/acceptance", json=body),
        "what is proposed",
        {"new_profile": "--gpu-type"},
    )


def _sent(
    client: httpx.Client,
    files: Sequence[Path],
    query: Mapping[str, str],
    headers: Mapping[str, str],
) -> httpx.Response:
    with ExitStack() as stack:
        parts = [
            ("file", (file.name, stack.enter_context(file.open("rb")), "application/octet-stream"))
            for file in files
        ]
        return client.post(
            PATH, params=query, files=parts, headers=headers, timeout=ANSWER_TIMEOUT_S
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
