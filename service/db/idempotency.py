"""Answers that are given once: a key, and what was answered to its first request."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import msgspec
from sqlalchemy import ColumnElement, Row, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from service.db.engine import Connection, Database
from service.db.tables import idempotency_key as keys
from service.errors import ConflictError, InvalidError

MAX_TRIES = 5
# Answers forgotten by one transaction
FORGOTTEN_PER_STEP = 1_000


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it was sent.

    `kept_body` is what is stored and given to repetitions instead, where the answer has a secret
    in it that is shown once.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    kept_body: bytes | None = None


class KeyedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a key is bound to: the same key with anything else here is refused.

    A key is its sender's own: another principal's answer may hold what this one must not see.
    """

    team_id: UUID
    principal: str
    key: str
    method: str
    path: str
    body_digest: str


class _KeyTakenError(Exception):
    """Another transaction has committed the key since it was looked for."""


def run_once(
    database: Database,
    request: KeyedRequest,
    create: Callable[[Connection], StoredAnswer],
) -> tuple[StoredAnswer, bool]:
    """Run `create` unless the key was answered before; the flag says whether it was.

    The key row, everything that `create` writes and its answer are committed together, so an
    error inside `create` leaves the key free. Raises `InvalidError`
    (`idempotency-key-reused`) when the key was used for another request.
    """
    for _ in range(MAX_TRIES):
        try:
            with database.write() as connection:
                return _run_in(connection, request, create)
        except _KeyTakenError:
            # PostgreSQL: the insert waited for the other writer on the unique index and lost.
            # This transaction is dead; a new one reads what the winner has stored.
            continue
    raise ConflictError(
        f"another request with the Idempotency-Key {request.key!r} is still running"
    )


def find_answer(database: Database, request: KeyedRequest) -> StoredAnswer | None:
    """What the key was answered before; None when it was not.

    Raises `InvalidError` (`idempotency-key-reused`) when that was another request.
    """
    with database.read() as connection:
        earlier = connection.execute(select(keys).where(_same_key(request))).one_or_none()
    return None if earlier is None else _replayed(earlier, request)


def _same_key(request: KeyedRequest) -> ColumnElement[bool]:
    return and_(
        keys.c.team_id == request.team_id,
        keys.c.principal == request.principal,
        keys.c.key == request.key,
    )


def _run_in(
    connection: Connection, request: KeyedRequest, create: Callable[[Connection], StoredAnswer]
) -> tuple[StoredAnswer, bool]:
    mine = _same_key(request)
    if earlier := connection.execute(select(keys).where(mine)).one_or_none():
        return _replayed(earlier, request), True
    try:
        connection.execute(
            insert(keys).values(
                team_id=request.team_id,
                principal=request.principal,
                key=request.key,
                method=request.method,
                path=request.path,
                body_digest=request.body_digest,
            )
        )
    except IntegrityError as error:
        raise _KeyTakenError from error
    answer = create(connection)
    connection.execute(
        update(keys)
        .where(mine)
        .values(
            answered=True,
            status=answer.status,
            headers=answer.headers,
            body=answer.body if answer.kept_body is None else answer.kept_body,
        )
    )
    return answer, False


def forget_answers(database: Database, before: datetime) -> int:
    """Forget the answers to keys that were first sent before the moment; returns how many.

    Nothing is written when there are none.
    """
    old = select(keys.c.id).where(keys.c.created_at < before).limit(FORGOTTEN_PER_STEP)
    forgotten = 0
    while True:
        with database.read() as connection:
            found = list(connection.scalars(old))
        if not found:
            return forgotten
        with database.write() as connection:
            connection.execute(delete(keys).where(keys.c.id.in_(found)))
        forgotten += len(found)


def _replayed(row: Row[tuple[object, ...]], request: KeyedRequest) -> StoredAnswer:
    found = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for the row as a mapping
    if (found["method"], found["path"]) != (request.method, request.path):
        raise InvalidError(
            f"the Idempotency-Key {request.key!r} was used for "
            f"{found['method']} {found['path']}; take a new one",
            problem="idempotency-key-reused",
        )
    if found["body_digest"] != request.body_digest:
        raise InvalidError(
            f"the Idempotency-Key {request.key!r} was used with another body; take a new one",
            problem="idempotency-key-reused",
        )
    return msgspec.convert(
        {"status": found["status"], "headers": found["headers"], "body": found["body"]},
        StoredAnswer,
    )
