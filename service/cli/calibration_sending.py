"""Sending timings to a running service, and having a profile made of what it finds."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import httpx

from service.cli.document_options import SOURCE
from service.cli.faults import refuse
from service.cli.service_answers import Document, answered
from service.cli.submission_options import TRIES
from service.errors import FieldFault

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
    for attempt in range(1, TRIES + 1):
        try:
            return answered(_sent(client, files, said, headers), called(files))
        except (httpx.ReadError, httpx.RemoteProtocolError):
            if attempt == TRIES:
                raise
    raise AssertionError


def accepted(
    client: httpx.Client, calibration: Document, slug: str, gpu_type: str | None
) -> Document:
    """The revision of the profile; one that is not there is made, of the GPU type."""
    return answered(
        client.post(f"{PATH}/{calibration['id']}/acceptance", json=target(client, slug, gpu_type)),
        "what is proposed",
        {"new_profile": "--gpu-type"},
        outcome=f"no revision was made; it stays stored as {calibration['id']}",
    )


def target(client: httpx.Client, slug: str, gpu_type: str | None) -> Document:
    """Which profile is to be revised, or made; ends the program where neither can be."""
    there = client.get(f"{PROFILES}/{quote(slug, safe='')}")
    if there.status_code != httpx.codes.NOT_FOUND:
        return {"profile": slug, "profile_version": answered(there, slug)["version"]}
    if gpu_type is None:
        detail = f"there is no profile {slug!r}; to make it, say what GPUs it has"
        fault = FieldFault(pointer="--gpu-type", code="unknown_profile", detail=detail)
        refuse(SOURCE, [fault])
    return {"profile": slug, "new_profile": {"name": slug, "gpu_type": gpu_type}}


def called(files: Sequence[Path]) -> str:
    """What the files are called together in messages."""
    return str(files[0]) if len(files) == 1 else f"this set of {len(files)} files"


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
