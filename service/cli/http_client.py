"""The demo's client: what anybody's own client would send, over HTTP."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import msgspec
import rich_click as click

from service.cli.sent_keys import advice, key_for

Document = dict[str, Any]

ENDED = frozenset({"succeeded", "partially_failed", "failed", "canceled", "expired"})
PAGE_SIZE = 1_000
REQUEST_TIMEOUT_S = 60.0
ASK_EVERY_S = 0.1


def open_client(address: str) -> httpx.Client:
    """A client of the service at `address`; a proxy of the environment is not asked.

    It sends the key in `TRAINARD_API_KEY`, where there is one.
    """
    return httpx.Client(
        base_url=address, timeout=REQUEST_TIMEOUT_S, trust_env=False, auth=key_for(address)
    )


def open_demo_client(address: str) -> httpx.Client:
    """A client that sends the key only where one is demanded: a new database knows none."""
    with httpx.Client(base_url=address, timeout=REQUEST_TIMEOUT_S, trust_env=False) as anybody:
        demanded = anybody.get("/v1/meta").status_code == httpx.codes.UNAUTHORIZED
    return httpx.Client(
        base_url=address,
        timeout=REQUEST_TIMEOUT_S,
        trust_env=False,
        auth=key_for(address) if demanded else None,
    )


def create_once(client: httpx.Client, path: str, body: Document) -> bool:
    """POST a named document; False when it is there already (409)."""
    response = client.post(path, json=body)
    if response.status_code == httpx.codes.CONFLICT:
        return False
    _document(response)
    return True


def submit_batch(client: httpx.Client, body: Document, *, salt: str) -> Document:
    """POST a batch; the same body and salt again answer with the batch of the first time."""
    key = hashlib.sha256(salt.encode() + msgspec.json.encode(body, order="sorted")).hexdigest()[:32]
    response = client.post("/v1/scenario-batches", json=body, headers={"Idempotency-Key": key})
    _document(response)
    return _document(client.get(response.headers["Location"]))


def wait_for_batch(
    client: httpx.Client, batch: Document, on_progress: Callable[[Document], None]
) -> Document:
    """Ask until the batch has ended."""
    while batch["state"] not in ENDED:
        on_progress(batch)
        time.sleep(ASK_EVERY_S)
        batch = read(client, f"/v1/scenario-batches/{batch['id']}")
    on_progress(batch)
    return batch


def read(client: httpx.Client, path: str, **query: str) -> Document:
    """GET a document."""
    return _document(client.get(path, params=query))


def read_pages(client: httpx.Client, path: str, **query: str) -> Iterator[Document]:
    """GET all pages of a list, one after the other."""
    wanted: Mapping[str, str] = {**query, "page_size": str(PAGE_SIZE)}
    page = read(client, path, **wanted)
    yield page
    while token := page["next_page_token"]:
        page = read(client, path, **wanted, page_token=token)
        yield page


def _document(response: httpx.Response) -> Document:
    """The answer's document; a problem document ends the program with what it says."""
    if response.is_success:
        found: Document = response.json()
        return found
    if "json" not in response.headers.get("content-type", ""):
        raise click.ClickException(f"{response.request.url} answered {response.status_code}")
    problem = response.json()
    faults = [f"  {fault['pointer']}: {fault['detail']}" for fault in problem.get("errors", [])]
    sentence = f"{response.request.url}: {problem.get('title')}: {problem.get('detail')}"
    raise click.ClickException("\n".join([sentence + advice(response), *faults]))
