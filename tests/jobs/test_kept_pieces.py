"""The form of kept pieces, which of them are taken up again, and when one is kept at all."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from sqlalchemy import func, insert, select, update

from service.db.engine import Database
from service.db.tables import chunk_piece
from service.jobs import batch_runs, deletions, kept_pieces
from service.jobs.batch_documents import BatchOut
from service.jobs.batch_runs import ChunkWork, load_chunk
from service.jobs.chunks import Piece, compute_piece
from service.jobs.kept_pieces import decoded, drop_pieces, encoded, keep_piece, load_pieces
from service.jobs.planning import Plan
from tests.jobs.batch_bodies import ACTOR, cancel, item, read, speeds, submit
from tests.jobs.chunk_steps import record
from tests.jobs.completed import complete
from tests.jobs.piece_steps import SMALL_CHUNK, pieces_of

ENDS = (0, 100, 250, 600)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "chunk_points", SMALL_CHUNK)


def begun(database: Database) -> tuple[BatchOut, ChunkWork]:
    batch = submit(database, item(axes=[speeds(12_000)]), reuse=False)
    with database.write() as connection:
        work = load_chunk(connection, batch.id, 0, datetime.now(UTC))
        batch_runs.start(connection, batch.id, datetime.now(UTC))
    assert work is not None
    return batch, work


def keep(database: Database, work: ChunkWork, start: int, stop: int) -> bool:
    piece = compute_piece(work.spans, work.columns, start, stop)
    with database.write() as connection:
        return keep_piece(connection, work, start, piece, datetime.now(UTC))


def kept_three(database: Database) -> tuple[BatchOut, ChunkWork]:
    batch, work = begun(database)
    for start, stop in pairwise(ENDS):
        assert keep(database, work, start, stop)
    return batch, work


def load(database: Database, work: ChunkWork) -> tuple[int, list[int]]:
    """How many points are taken up again, and which pieces do not fit."""
    with database.read() as connection:
        kept = load_pieces(connection, work)
    return sum(piece.num_points for piece in kept.pieces), kept.unfit


def change_second(database: Database, **values: Any) -> None:
    with database.write() as connection:
        connection.execute(
            update(chunk_piece).where(chunk_piece.c.first_point == ENDS[1]).values(**values)
        )


def test_every_bit_comes_back() -> None:
    nan = np.array([0x7FF8_0000_0000_0001, 0x7FF0_0000_0000_0000], dtype=np.uint64).view("<f8")
    table = {
        "item": np.array([3, 3]),
        "failure": np.array([0, -1], dtype=np.int8),
        "is_plain": np.array([True, False]),
        "step_ms": nan,
        "same": np.array([0.1, 0.1]),
    }
    found = decoded(encoded(Piece(table=table, progress=[(3, 2, 1)])), 2)
    assert found.progress == [(3, 2, 1)]
    assert list(found.table) == list(table)
    for name, values in table.items():
        assert found.table[name].dtype == values.dtype
        assert found.table[name].tobytes() == values.tobytes()


def test_other_bytes_are_not_read() -> None:
    column = ("step_ms", "f8", np.array([1.5]).tobytes())
    whole = [[column], [(0, 1, 0)]]
    assert decoded(msgspec.msgpack.encode(whole), 1).table["step_ms"].tolist() == [1.5]
    for spoiled in (
        b"",
        b"\x80\x04K\x01.",
        msgspec.msgpack.encode(whole)[:-3],
        msgspec.msgpack.encode([[("step_ms", "O", b"12345678")], [(0, 1, 0)]]),
        msgspec.msgpack.encode([[("step_ms", "f8", b"no frame of zstd")], [(0, 1, 0)]]),
        msgspec.msgpack.encode([[column], [(0, 7, 0)]]),
    ):
        with pytest.raises(kept_pieces.UNREADABLE):
            decoded(spoiled, 1)


def test_pieces_without_a_gap_are_taken_up(database: Database) -> None:
    _, work = kept_three(database)
    with database.read() as connection:
        kept = load_pieces(connection, work)
    assert kept.unfit == []
    for piece, start, stop in zip(kept.pieces, ENDS, ENDS[1:], strict=False):
        expected = compute_piece(work.spans, work.columns, start, stop)
        assert piece.progress == expected.progress
        assert {name: values.tobytes() for name, values in piece.table.items()} == {
            name: values.tobytes() for name, values in expected.table.items()
        }


@pytest.mark.parametrize(
    "spoiled",
    [
        {"model_version": "0.9"},
        {"payload": b"nothing that could be read"},
        {"num_points": 0},
        {"num_points": 149},
        {"num_points": 10_000},
        {"first_point": 101},
    ],
)
def test_pieces_that_do_not_fit_are_left_out_with_those_after_them(
    database: Database, spoiled: dict[str, Any]
) -> None:
    batch, work = kept_three(database)
    change_second(database, **spoiled)
    points, unfit = load(database, work)
    assert (points, unfit) == (100, [spoiled.get("first_point", 100), 250])
    with database.write() as connection:
        drop_pieces(connection, work, unfit)
    assert read(database, batch.id).points_done == 100
    # What is computed instead of them is kept again.
    assert keep(database, work, 100, 200)
    assert load(database, work) == (200, [])


def test_pieces_of_other_columns_are_left_out(database: Database) -> None:
    _, work = kept_three(database)
    piece = compute_piece(work.spans, work.columns, 100, 250)
    fewer = {name: values for name, values in piece.table.items() if name != "step_mean_ms"}
    change_second(database, payload=encoded(Piece(table=fewer, progress=piece.progress)))
    assert load(database, work) == (100, [100, 250])


def test_a_piece_is_kept_only_where_the_kept_ones_end(database: Database) -> None:
    batch, work = begun(database)
    assert not keep(database, work, 100, 200)
    assert keep(database, work, 0, 100)
    # Another process, stopped and taken over, that cuts elsewhere, or at the same place.
    assert not keep(database, work, 0, 100)
    assert not keep(database, work, 64, 200)
    assert not keep(database, work, 101, 200)
    assert keep(database, work, 100, 200)
    assert read(database, batch.id).points_done == 200


def test_no_piece_is_kept_of_a_chunk_or_batch_that_is_done(database: Database) -> None:
    batch, work = begun(database)
    assert keep(database, work, 0, 100)
    record(database, batch.id, 0)
    assert pieces_of(database, batch.id) == []
    assert not keep(database, work, 0, 100)
    canceled, work = begun(database)
    assert keep(database, work, 0, 100)
    cancel(database, canceled.id)
    assert not keep(database, work, 100, 200)
    # Until the cancellation is carried out they are still there.
    assert read(database, canceled.id).points_done == 100


def test_a_piece_that_is_too_large_is_not_kept(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, work = kept_three(sqlite_database)
    monkeypatch.setattr(kept_pieces, "MAX_PAYLOAD_BYTES", 100)
    assert not keep(sqlite_database, work, 600, 700)
    assert load(sqlite_database, work) == (0, [0, 100, 250])


def test_pieces_go_with_their_batch(database: Database) -> None:
    batch = submit(database, item(), reuse=False)
    complete(database)
    # None is left when a batch ends; a deletion would take it along all the same.
    with database.write() as connection:
        connection.execute(
            insert(chunk_piece),
            [
                {
                    "team_id": ACTOR.team_id,
                    "batch_id": batch.id,
                    "chunk": chunk,
                    "first_point": 10_000 * chunk,
                    "num_points": 1,
                    "model_version": "2.0",
                    "payload": b"",
                }
                for chunk in range(3)
            ],
        )
    ended = read(database, batch.id)
    with database.write() as connection:
        deletions.delete_batch(connection, ACTOR, batch.id, expected_version=ended.version)
    complete(database)
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(chunk_piece)) == 0
