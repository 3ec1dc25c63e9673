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
from service.db.idempotency import KeyedRequest, StoredAnswer, run_once


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """What a creating use case answers with.

    `stored_document` is what is stored, and answered to a repetition, in place of a document with
    a secret that is shown once.
    """

    document: Any
    stored_document: Any | None = None
    status: int = 201
    headers: dict[str, str] = {}


async def create_once(request: ApiRequest, create: Callable[[Connection], Created]) -> ApiResponse:
    """Run `create` in one write transaction, in a thread, and answer with what it returns.

    With an Idempotency-Key the answer is stored in the same transaction; a second request of the
    same principal with the same key, path and body gets it again, with `Idempotent-Replayed: true`.
    """
    database, actor = database_of(request), actor_of(request)
    key = request.headers.get("idempotency-key")
    if key is None:
        stored = await in_thread(partial(_create, database, create))
        return _answered(stored)
    keyed = KeyedRequest(
        team_id=actor.team_id,
        principal=actor.principal,
        key=key,
        method=request.method,
        # With its query: validate_only and the like make another request of it.
        path=str(request.url.path) + (f"?{query}" if (query := request.url.query) else ""),
        body_digest="sha256:" + hashlib.sha256(await request.body()).hexdigest(),
    )
    stored, replayed = await in_thread(
        partial(run_once, database, keyed, lambda connection: _stored(create(connection)))
    )
    # For the gate: what a change is answered with again has no event of a change.
    request.state.replayed = replayed
    return _answered(stored, {"Idempotent-Replayed": "true"} if replayed else {})


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
