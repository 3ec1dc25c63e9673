"""`Idempotency-Key` on creating POSTs: the same key and body get the same answer."""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from service.api.answers import encode, raw_answer
from service.api.contract import JSON, ApiRequest, ApiResponse
from service.api.transactions import actor_of, database_of, in_thread
from service.db.engine import Connection, Database
from service.db.idempotency import KeyedRequest, StoredAnswer, find_answer, run_once


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """What a creating use case answers with.

    `stored_document` is what is stored, and answered to a repetition, in place of a document with
    a secret that is shown once.
    """

    document: Any
    stored_document: Any | None = None
    status: int = 201
    headers: dict[str, str] = {}


async def create_once(
    request: ApiRequest,
    create: Callable[[Connection], Created],
    *,
    body_digest: str | None = None,
) -> ApiResponse:
    """Run `create` in one write transaction, in a thread, and answer with what it returns.

    With an Idempotency-Key the answer is stored in the same transaction; a second request of the
    same principal with the same key, path and body gets it again, with `Idempotent-Replayed: true`.
    `body_digest` is that of a body that was streamed; else the body is read.
    """
    database = database_of(request)
    if body_digest is None and "idempotency-key" in request.headers:
        body_digest = "sha256:" + hashlib.sha256(await request.body()).hexdigest()
    keyed = _keyed(request, body_digest or "")
    if keyed is None:
        stored = await in_thread(partial(_create, database, create))
        return _answered(stored)
    stored, is_replay = await in_thread(
        partial(run_once, database, keyed, lambda connection: _stored(create(connection)))
    )
    return _replay(request, stored) if is_replay else _answered(stored)


async def replayed(request: ApiRequest, body_digest: str) -> ApiResponse | None:
    """The answer that the key was given before, for work that is long before it can be stored."""
    keyed = _keyed(request, body_digest)
    if keyed is None:
        return None
    stored = await in_thread(partial(find_answer, database_of(request), keyed))
    return None if stored is None else _replay(request, stored)


def _keyed(request: ApiRequest, body_digest: str) -> KeyedRequest | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    actor = actor_of(request)
    return KeyedRequest(
        team_id=actor.team_id,
        principal=actor.principal,
        key=key,
        method=request.method,
        # With its query: validate_only and the like make another request of it.
        path=str(request.url.path) + (f"?{query}" if (query := request.url.query) else ""),
        body_digest=body_digest,
    )


def _replay(request: ApiRequest, stored: StoredAnswer) -> ApiResponse:
    # For the gate: what a change is answered with again has no event of a change.
    request.state.replayed = True
    return _answered(stored, {"Idempotent-Replayed": "true"})


def _create(database: Database, create: Callable[[Connection], Created]) -> StoredAnswer:
    with database.write() as connection:
        return _stored(create(connection))


def _stored(created: Created) -> StoredAnswer:
    kept = created.stored_document
    return StoredAnswer(
        status=created.status,
        headers=created.headers,
        body=encode(created.document),
        kept_body=None if kept is None else encode(kept),
    )


def _answered(stored: StoredAnswer, more: dict[str, str] | None = None) -> ApiResponse:
    return raw_answer(
        stored.body,
        media_type=JSON,
        status=stored.status,
        headers={**stored.headers, **(more or {})},
    )
