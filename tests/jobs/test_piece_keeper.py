"""Pieces of a long chunk are kept as they are done, and whoever begins it again goes on."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from service.db import batches as batch_rows
from service.db.engine import Database, OperationalError
from service.db.failures import NotStoredError
from service.db.tables import chunk_piece, scenario_batch
from service.errors import ConflictError
from service.jobs import batch_ends, batches, piece_keeper
from service.jobs.batch_documents import BatchOut
from service.jobs.batch_progress import read_changes
from service.jobs.kept_pieces import keep_piece
from service.jobs.planning import Plan
from service.jobs.workflows import HandedOverError
from service.model import MODEL_VERSION
from tests.jobs.batch_bodies import ACTOR, cancel, item, read, speeds, submit
from tests.jobs.chunk_steps import record
from tests.jobs.completed import complete
from tests.jobs.engine_processes import assert_same_bits
from tests.jobs.piece_steps import SMALL_CHUNK, HerePool, pieces_of, workflows_of


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut any batch as one whose points take long, and keep every piece: tried with cheap ones."""
    monkeypatch.setattr(Plan, "chunk_points", SMALL_CHUNK)
    monkeypatch.setattr(piece_keeper, "KEEP_S", 0.0)


def two_items(database: Database) -> BatchOut:
    items = (item(axes=[speeds(6_000)]), item(custom_id="b", axes=[speeds(7_000)]))
    return submit(database, *items, reuse=False)


def stop_at(database: Database, batch_id: UUID, number: int) -> HerePool:
    """Compute chunk 0 in a process that is stopped while it computes its n-th piece."""
    here = HerePool(lambda done: workflows.stop() if done == number else None)
    workflows = workflows_of(database, here)
    with pytest.raises(HandedOverError):
        workflows.run_chunk(batch_id, 0)
    assert len(here.spans) == number + 1
    return here


def stored(database: Database, batch_id: UUID) -> Any:
    with database.read() as connection:
        return batch_rows.find_batch(connection, batch_id)


def test_a_chunk_that_is_begun_again_goes_on_after_its_pieces(database: Database) -> None:
    undisturbed, batch = two_items(database), two_items(database)
    first = stop_at(database, batch.id, 3)
    kept = pieces_of(database, batch.id)
    assert [(row.first_point, row.first_point + row.num_points) for row in kept] == first.spans
    assert {(row.team_id, row.chunk) for row in kept} == {(ACTOR.team_id, 0)}
    second = stop_at(database, batch.id, 1)
    third = HerePool()
    workflows_of(database, third).run_chunk(batch.id, 0)
    spans = first.spans + second.spans + third.spans
    # Nothing is computed twice, and nothing is left out.
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    assert spans[-1][1] == SMALL_CHUNK
    assert pieces_of(database, batch.id) == []
    complete(database)
    assert_same_bits(database, batch.id, undisturbed.id)
    found, expected = read(database, batch.id), read(database, undisturbed.id)
    assert (found.state, found.points_done, found.points_failed) == ("succeeded", 13_000, 0)
    assert found.counts == expected.counts


def test_the_progress_counts_the_kept_pieces(database: Database) -> None:
    batch = two_items(database)
    seen: list[BatchOut] = []
    here = HerePool(lambda _: seen.append(read(database, batch.id)))
    workflows_of(database, here).run_chunk(batch.id, 0)
    assert [found.points_done for found in seen] == [start for start, _ in here.spans]
    # By which those who watch the batch know that there is something new.
    versions = [found.version for found in seen]
    assert versions == sorted(set(versions))
    assert read(database, batch.id).points_done == SMALL_CHUNK
    stop = HerePool(lambda done: workflows.stop() if done == 1 else None)
    workflows = workflows_of(database, stop)
    with pytest.raises(HandedOverError):
        workflows.run_chunk(batch.id, 1)
    done = SMALL_CHUNK + 20
    assert read(database, batch.id).points_done == done
    with database.read() as connection:
        (change,) = read_changes(connection, {batch.id: versions[-1]})
        assert change.document is not None
        assert change.document.points_done == done
        (listed,) = batches.list_page(connection, ACTOR, page_size=1, page_token=None).items
        assert listed.points_done == done
        with pytest.raises(ConflictError, match=f"{done} of 13000 points"):
            batches.require_finished(connection, ACTOR, batch.id)


def test_kept_pieces_do_not_end_a_batch(database: Database) -> None:
    batch = submit(database, item(axes=[speeds(8)]), reuse=False)
    stop_at(database, batch.id, 0)
    # As if all were kept: the chunk is still to be stored.
    with database.write() as connection:
        connection.execute(update(chunk_piece).values(num_points=8))
    assert read(database, batch.id).points_done == 8
    assert stored(database, batch.id).points_done == 0
    with database.read() as connection:
        assert not batch_ends.is_due(connection, batch.id, datetime.now(UTC))


@pytest.mark.parametrize("ending", ["canceled", "expired"])
def test_an_ended_batch_has_no_pieces(database: Database, ending: str) -> None:
    batch = two_items(database)

    def end(number: int) -> None:
        if number != 3:
            return
        if ending == "canceled":
            cancel(database, batch.id)
        with database.write() as connection:
            connection.execute(
                update(scenario_batch)
                .where(scenario_batch.c.id == batch.id)
                .values(deadline_at=datetime.now(UTC) - timedelta(seconds=1))
            )
        assert len(pieces_of(database, batch.id)) == number

    workflows_of(database, HerePool(end)).run_chunk(batch.id, 0)
    found = read(database, batch.id)
    assert (found.state, found.points_done) == (ending, 0)
    assert pieces_of(database, batch.id) == []


def test_a_chunk_that_fails_leaves_no_pieces(database: Database) -> None:
    batch = two_items(database)
    stop_at(database, batch.id, 2)
    record(database, batch.id, 0, failure="chunk 0 cannot be stored")
    assert pieces_of(database, batch.id) == []
    assert read(database, batch.id).points_done == SMALL_CHUNK


@pytest.mark.parametrize(
    "error", [OperationalError("INSERT", None, Exception("gone")), NotStoredError("full")]
)
def test_what_cannot_be_kept_waits_for_the_next_piece(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    batch = two_items(sqlite_database)
    calls = 0

    def refuse_twice(*arguments: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise error
        return keep_piece(*arguments)

    monkeypatch.setattr(piece_keeper, "keep_piece", refuse_twice)
    here = stop_at(sqlite_database, batch.id, 3)
    kept = pieces_of(sqlite_database, batch.id)
    assert [row.first_point for row in kept] == [0, here.spans[3][0]]
    workflows_of(sqlite_database, HerePool()).run_chunk(batch.id, 0)
    assert read(sqlite_database, batch.id).points_done == SMALL_CHUNK


def test_pieces_that_cannot_be_loaded_are_computed_again(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = two_items(sqlite_database)
    stop_at(sqlite_database, batch.id, 2)

    def away(*_: object) -> None:
        raise OperationalError("SELECT", None, Exception("gone"))

    monkeypatch.setattr(piece_keeper, "load_pieces", away)
    here = HerePool()
    workflows_of(sqlite_database, here).run_chunk(batch.id, 0)
    assert here.spans[0][0] == 0
    assert read(sqlite_database, batch.id).points_done == SMALL_CHUNK


def test_pieces_of_another_model_are_computed_again(database: Database) -> None:
    undisturbed, batch = two_items(database), two_items(database)
    stop_at(database, batch.id, 2)
    with database.write() as connection:
        connection.execute(update(chunk_piece).values(model_version="0.9"))
    here = stop_at(database, batch.id, 2)
    assert here.spans[0][0] == 0
    # They are gone, and those of this model are kept in their places.
    kept = pieces_of(database, batch.id)
    assert [(row.first_point, row.model_version) for row in kept] == [
        (start, MODEL_VERSION) for start, _ in here.spans
    ]
    complete(database)
    assert_same_bits(database, batch.id, undisturbed.id)


def test_cheap_pieces_are_not_kept(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piece_keeper, "KEEP_S", 1e6)
    batch = two_items(sqlite_database)
    stop_at(sqlite_database, batch.id, 3)
    assert pieces_of(sqlite_database, batch.id) == []
