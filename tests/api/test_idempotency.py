"""Against both databases: the unique index is the lock, and the two lock differently."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import func, insert, select, update

from service.db import idempotency
from service.db.engine import Connection, Database
from service.db.idempotency import KeyedRequest, StoredAnswer, run_once
from service.db.tables import idempotency_key, team
from service.errors import ConflictError, InvalidError
from service.jobs.actors import DEFAULT_TEAM_ID
from service.jobs.kept_answers import forget_old

RACERS = 32
REQUEST = KeyedRequest(
    team_id=DEFAULT_TEAM_ID,
    principal="local",
    key="k-1",
    method="POST",
    path="/v1/things",
    body_digest="sha256:1",
)


class Creator:
    """Makes one team row a call, so that rows can be counted."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, connection: Connection) -> StoredAnswer:
        self.num_calls += 1
        slug = f"made-{self.num_calls}"
        connection.execute(
            insert(team).values(id=UUID(int=1000 + self.num_calls), slug=slug, name=slug)
        )
        return StoredAnswer(status=201, headers={"Location": f"/{slug}"}, body=slug.encode())


def num_made(database: Database) -> int:
    with database.read() as connection:
        return int(
            connection.scalar(
                select(func.count()).select_from(team).where(team.c.slug.like("made-%"))
            )
            or 0
        )


def test_the_second_request_gets_the_first_answer(database: Database) -> None:
    create = Creator()
    first, replayed = run_once(database, REQUEST, create)
    assert not replayed
    assert run_once(database, REQUEST, create) == (first, True)
    assert first == StoredAnswer(status=201, headers={"Location": "/made-1"}, body=b"made-1")
    assert (create.num_calls, num_made(database)) == (1, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"body_digest": "sha256:2"}, "another body"),
        ({"path": "/v1/others"}, "POST /v1/things"),
        ({"method": "PUT"}, "POST /v1/things"),
    ],
)
def test_a_key_of_another_request_is_refused(
    sqlite_database: Database, change: dict[str, str], words: str
) -> None:
    create = Creator()
    run_once(sqlite_database, REQUEST, create)
    with pytest.raises(InvalidError, match=words) as caught:
        run_once(sqlite_database, msgspec.structs.replace(REQUEST, **change), create)
    assert caught.value.problem == "idempotency-key-reused"
    assert num_made(sqlite_database) == 1


def test_keys_are_of_one_team(sqlite_database: Database) -> None:
    other = UUID(int=7)
    with sqlite_database.write() as connection:
        connection.execute(insert(team).values(id=other, slug="other", name="Other"))
    create = Creator()
    run_once(sqlite_database, REQUEST, create)
    _, replayed = run_once(sqlite_database, msgspec.structs.replace(REQUEST, team_id=other), create)
    assert not replayed
    assert num_made(sqlite_database) == 2


def test_keys_are_of_one_principal(database: Database) -> None:
    """Who may not see money must not get the answer of who may."""
    create = Creator()
    first, _ = run_once(database, REQUEST, create)
    other = msgspec.structs.replace(REQUEST, principal="key:0123456789abcdef")
    second, replayed = run_once(database, other, create)
    assert (replayed, first.body, second.body) == (False, b"made-1", b"made-2")
    assert run_once(database, other, create) == (second, True)
    assert run_once(database, REQUEST, create) == (first, True)


def test_a_secret_is_answered_once_and_never_stored(database: Database) -> None:
    def create(_: Connection) -> StoredAnswer:
        return StoredAnswer(status=201, headers={}, body=b"the secret", kept_body=b"no secret")

    first, _ = run_once(database, REQUEST, create)
    assert first.body == b"the secret"
    again, replayed = run_once(database, REQUEST, create)
    assert (again.body, replayed) == (b"no secret", True)
    with database.read() as connection:
        assert connection.scalar(select(idempotency_key.c.body)) == b"no secret"


def test_answers_are_forgotten_after_a_week(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "FORGOTTEN_PER_STEP", 2)
    create = Creator()
    for number in range(5):
        run_once(database, msgspec.structs.replace(REQUEST, key=f"old-{number}"), create)
    with database.write() as connection:
        week = datetime.now(UTC) - timedelta(days=7, seconds=1)
        connection.execute(update(idempotency_key).values(created_at=week))
    run_once(database, REQUEST, create)
    assert forget_old(database) == 5
    assert forget_old(database) == 0
    assert run_once(database, REQUEST, create)[1]
    _, replayed = run_once(database, msgspec.structs.replace(REQUEST, key="old-0"), create)
    assert not replayed


def test_an_error_leaves_the_key_free_and_nothing_written(database: Database) -> None:
    create = Creator()

    def fail(connection: Connection) -> StoredAnswer:
        create(connection)
        raise ConflictError("refused after writing")

    with pytest.raises(ConflictError):
        run_once(database, REQUEST, fail)
    assert num_made(database) == 0
    _, replayed = run_once(database, REQUEST, create)
    assert not replayed
    assert num_made(database) == 1


def test_of_32_parallel_requests_one_creates(database: Database) -> None:
    create = Creator()
    barrier = Barrier(RACERS)

    def race(_: int) -> tuple[StoredAnswer, bool]:
        barrier.wait()
        return run_once(database, REQUEST, create)

    with ThreadPoolExecutor(RACERS) as pool:
        answers = list(pool.map(race, range(RACERS)))
    assert {answer.body for answer, _ in answers} == {b"made-1"}
    assert sum(not replayed for _, replayed in answers) == 1
    assert num_made(database) == 1
    with database.read() as connection:
        rows = connection.scalar(select(func.count()).select_from(idempotency_key))
    assert rows == 1
