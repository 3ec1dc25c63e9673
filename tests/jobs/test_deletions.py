"""Deleted batches are gone at once for every reader, and their rows after a while, however often
the deletion is killed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from sqlalchemy import func, select, update

from service.db import deletions as rows_of
from service.db.blocks import write_blocks
from service.db.encoded_blocks import encode_columns
from service.db.engine import Connection, Database
from service.db.tables import metadata, pricing, result_block, scenario_batch
from service.errors import ConflictError, NotFoundError, PreconditionFailedError
from service.jobs import batches, comparisons, deletions, loss_histories, repricings, results
from service.jobs.batch_documents import BatchOut
from service.jobs.comparisons import ComparisonQuery
from service.jobs.history_documents import HistoryQuery
from service.jobs.repricings import RepricingIn
from service.jobs.result_queries import ResultsQuery
from service.jobs.tasks import TASKS
from tests.jobs.batch_bodies import ACTOR, SIZES, cancel, item, read, rows, run, submit
from tests.jobs.completed import complete

NOW = datetime(2026, 12, 31, tzinfo=UTC)


def make(database: Database, name: str = "one slow GPU") -> BatchOut:
    return run(
        database,
        item(name=name, axes=[SIZES], headline={"num_gpus": 1024}),
        item(custom_id="second", name="second"),
        currency="EUR",
    )


def delete(database: Database, batch: BatchOut) -> None:
    with database.write() as connection:
        deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)


def counts(database: Database) -> dict[str, int]:
    """How many rows each table has."""
    with database.read() as connection:
        return {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in metadata.sorted_tables
        }


def num_blocks(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(result_block)) or 0


def everything(database: Database) -> dict[str, list[str]]:
    """All rows of all tables but the audit trail, which forgets nothing, as sorted text."""
    with database.read() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table))))
            for table in metadata.sorted_tables
            if not table.name.startswith("audit_")
        }


def assert_not_there(database: Database, batch_id: UUID, other: UUID) -> None:
    with database.read() as connection:
        for ask in (
            lambda c: batches.get(c, ACTOR, batch_id),
            lambda c: results.list_page(c, ACTOR, ResultsQuery(batch=batch_id)),
            lambda c: results.read_one(c, ACTOR, f"{batch_id}.0"),
            lambda c: comparisons.compare(
                c, ACTOR, ComparisonQuery(baseline=other, candidate=batch_id), page_size=5
            ),
            lambda c: repricings.list_pricings(c, ACTOR, batch_id),
        ):
            with pytest.raises(NotFoundError, match=str(batch_id)):
                ask(connection)
        listed = batches.list_page(connection, ACTOR, page_size=50, page_token=None)
        history = loss_histories.history(
            connection, ACTOR, HistoryQuery(scenario="one slow GPU"), NOW
        )
        without = loss_histories.history(
            connection, ACTOR, HistoryQuery(scenario="no headline"), NOW
        )
    with database.write() as connection, pytest.raises(NotFoundError):
        repricings.reprice(connection, ACTOR, batch_id, RepricingIn(currency="EUR"))
    assert [batch.id for batch in listed.items] == [other]
    assert {row.batch_id for row in history.items} == {other}
    assert without.without_headline == 0
    assert {row.batch_id for row in rows(database, page_size=1000)} == {other}


def test_a_deleted_batch_is_gone_for_every_reader_at_once(database: Database) -> None:
    kept, batch = make(database), make(database)
    with_item = run(database, item(name="no headline", axes=[SIZES], headline=None))
    with database.read() as connection:
        found = loss_histories.history(
            connection, ACTOR, HistoryQuery(scenario="one slow GPU"), NOW
        )
    assert {row.batch_id for row in found.items} == {kept.id, batch.id}
    delete(database, batch)
    delete(database, with_item)
    assert_not_there(database, batch.id, kept.id)
    with database.write() as connection, pytest.raises(NotFoundError):
        deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)


def test_the_rows_go_and_nothing_else_does(database: Database) -> None:
    kept = make(database)
    before = everything(database)
    batch = make(database)
    with database.write() as connection:
        repricings.reprice(connection, ACTOR, batch.id, RepricingIn(currency="USD"))
        batch = batches.get(connection, ACTOR, batch.id)
    assert counts(database)["result_block"] > len(before["result_block"])
    delete(database, batch)
    assert counts(database)["result_block"] > len(before["result_block"])
    complete(database)
    assert everything(database) == before
    assert_not_there(database, batch.id, kept.id)


def test_only_what_has_ended_is_deleted_and_only_as_it_was_read(database: Database) -> None:
    waiting = submit(database, item())
    with pytest.raises(ConflictError, match="is queued: only a batch that has ended"):
        delete(database, waiting)
    canceled = cancel(database, waiting.id)
    with database.write() as connection:
        with pytest.raises(NotFoundError):
            deletions.delete_batch(connection, ACTOR, uuid4(), expected_version=1)
        with pytest.raises(PreconditionFailedError, match="not 77"):
            deletions.delete_batch(connection, ACTOR, waiting.id, expected_version=77)
    delete(database, canceled)
    complete(database)
    assert counts(database)["scenario_batch"] == 0


class KilledError(Exception):
    pass


class Mortal(Database):
    """A database whose process ends before its n-th transaction."""

    def __init__(self, database: Database, transactions: int) -> None:
        self.__dict__.update(database.__dict__)
        self._left = transactions

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self._left -= 1
        if self._left < 0:
            raise KilledError
        with super().write() as connection:
            yield connection


def test_a_deletion_goes_on_wherever_it_was_killed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_of, "BLOCKS_PER_STEP", 7)
    monkeypatch.setattr(rows_of, "ROWS_PER_STEP", 1)
    make(database)
    before = everything(database)
    batch = make(database)
    delete(database, batch)
    # On PostgreSQL the first transaction of each try looks for published rows.
    first = 1 if database.is_sqlite else 2
    kills, left = 0, [sum(counts(database).values())]
    while True:
        try:
            # One transaction further each time, from what the killed one has left.
            deletions.run(Mortal(database, first + kills % 2), batch.id)
        except KilledError:
            kills += 1
            left.append(sum(counts(database).values()))
        else:
            break
    assert kills > 8
    assert left == sorted(set(left), reverse=True)
    assert everything(database) == before
    deletions.run(database, batch.id)
    assert everything(database) == before


DELETING = """
import sys
from uuid import UUID
from service.db.engine import Database
from service.jobs import deletions
deletions.run(Database(sys.argv[1]), UUID(sys.argv[2]))
"""


def test_a_deletion_outlives_kill_9(database: Database, database_url: str) -> None:
    kept = make(database)
    before, batch = everything(database), run(database, item())
    with database.write() as connection:
        for block in range(1, 600):
            columns = encode_columns({"gpu_hours_lost": np.array([1.0, block])})
            write_blocks(connection, ACTOR.team_id, batch.id, block, columns)
    delete(database, batch)
    blocks = [num_blocks(database)]
    for _ in range(3):
        call = [sys.executable, "-c", DELETING, database_url, str(batch.id)]
        with subprocess.Popen(call) as process:
            while (left := num_blocks(database)) > blocks[-1] - 50:
                assert process.poll() is None
                time.sleep(0.005)
            process.kill()
        blocks.append(num_blocks(database))
        assert len(before["result_block"]) < blocks[-1] <= left
    deletions.run(database, batch.id)
    assert everything(database) == before
    assert read(database, kept.id).state == "succeeded"


def test_a_deletion_is_sent_once_and_keeps_why_it_failed(database: Database) -> None:
    task, batch = TASKS["deletion"], make(database)
    with database.write() as connection:
        assert list(task.unsent(connection, 1)) == []
    delete(database, batch)
    with database.write() as connection:
        assert list(task.unsent(connection, 1)) == [batch.id]
        task.mark_sent(connection, [batch.id], 1)
        assert list(task.unsent(connection, 1)) == []
        assert list(task.unsent(connection, 2)) == [batch.id]
        task.fail(connection, batch.id, "no more room")
        stored = connection.execute(select(scenario_batch)).one()
    assert stored.failure == "deletion: no more room"
    with database.read() as connection:
        assert deletions.list_left(connection) == [batch.id]
    task.run(database, batch.id)
    with database.read() as connection:
        assert deletions.list_left(connection) == []
    assert counts(database)["scenario_batch"] == 0


def age(database: Database, batch: BatchOut, days: float) -> None:
    with database.write() as connection:
        connection.execute(
            update(scenario_batch)
            .where(scenario_batch.c.id == batch.id)
            .values(ended_at=datetime.now(UTC) - timedelta(days=days))
        )


def test_batches_expire_after_the_retention(database: Database) -> None:
    old, older, young = (run(database, item()) for _ in range(3))
    waiting = submit(database, item())
    for batch, days in ((old, 31), (older, 400), (young, 29)):
        age(database, batch, days)
    now = datetime.now(UTC)
    with database.write() as connection:
        assert deletions.mark_expired(connection, now, 0) == 0
        found = deletions.count_expired(connection, now, 30)
        assert (found.num_batches, found.num_points) == (2, 2)
        assert deletions.mark_expired(connection, now, 30) == 2
        assert deletions.mark_expired(connection, now, 30) == 0
        assert deletions.list_left(connection) == sorted([old.id, older.id])
    for batch in (old, older):
        with pytest.raises(NotFoundError):
            read(database, batch.id)
    assert read(database, young.id).state == "succeeded"
    assert read(database, waiting.id).state == "queued"


def test_few_batches_are_marked_at_a_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_of, "BATCHES_PER_MARK", 2)
    made = [run(database, item()) for _ in range(3)]
    for number, batch in enumerate(made):
        age(database, batch, 50 - number)
    marked: list[Any] = []
    for _ in range(3):
        with database.write() as connection:
            marked.append(deletions.mark_expired(connection, datetime.now(UTC), 30))
    assert marked == [2, 1, 0]


def test_pricings_of_other_batches_stay(database: Database) -> None:
    kept, gone = make(database), make(database)
    delete(database, gone)
    complete(database)
    with database.read() as connection:
        assert set(connection.scalars(select(pricing.c.batch_id))) == {kept.id}
