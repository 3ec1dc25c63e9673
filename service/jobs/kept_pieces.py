"""Pieces of a long chunk as they are kept: packed columns, checked when they are taken up again.

Several processes may compute a chunk at a time, when one was stopped and taken over. Their numbers
are the same, but not where they cut: so a piece is kept only where the kept ones end.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from service.db import batches, chunk_pieces
from service.db.codec import DTYPES, pack, unpack
from service.db.engine import Connection, Row
from service.jobs.batch_runs import ChunkWork, takes_chunks
from service.jobs.chunks import Piece
from service.model import MODEL_VERSION

# 10 000 points have 1 to 5 MB.
MAX_PAYLOAD_BYTES = 32_000_000
# What bytes raise that are no piece, or that a disk has spoiled.
UNREADABLE = (msgspec.MsgspecError, ValueError, OSError)


class _Column(msgspec.Struct, frozen=True, array_like=True):
    name: str
    kind: str
    data: bytes


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    """Arrays and counts only: nothing that is read here can run."""

    columns: list[_Column]
    progress: list[tuple[int, int, int]]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces from the chunk's first point on without a gap, and where those that do not fit begin.

    These are of another model version, or cannot be read, or come after such a one.
    """

    pieces: list[Piece]
    unfit: list[int]


def load_pieces(connection: Connection, work: ChunkWork) -> Kept:
    """What is kept of the chunk."""
    pieces: list[Piece] = []
    next_point, stop = work.first_point, work.first_point + work.num_points
    rows = chunk_pieces.list_pieces(connection, work.batch_id, work.chunk)
    for row in rows:
        if row.first_point != next_point or not 0 < row.num_points <= stop - next_point:
            break
        piece = _fitting(row, pieces)
        if piece is None:
            break
        pieces.append(piece)
        next_point += piece.num_points
    return Kept(pieces=pieces, unfit=[row.first_point for row in rows[len(pieces) :]])


def drop_pieces(connection: Connection, work: ChunkWork, first_points: Sequence[int]) -> None:
    """Delete the pieces of the chunk that begin there."""
    chunk_pieces.delete_pieces(connection, work.batch_id, work.chunk, first_points)


def keep_piece(
    connection: Connection, work: ChunkWork, first_point: int, piece: Piece, now: datetime
) -> bool:
    """Keep the piece; not where it is of no use, which is no fault. Whether it was kept.

    Of no use is a piece of a batch that takes no more, of a chunk that is recorded, and one that
    does not begin where the kept ones end: another process computes the chunk.
    """
    payload = encoded(piece)
    if len(payload) > MAX_PAYLOAD_BYTES:
        return False
    # As whoever stores the chunk or ends the batch does, so that no piece outlives these.
    batch = batches.lock_batch(connection, work.batch_id)
    if batch is None or batch.state != "running" or not takes_chunks(batch, now):
        return False
    if batches.get_chunk(connection, work.batch_id, work.chunk) is not None:
        return False
    end = chunk_pieces.end_of_pieces(connection, work.batch_id, work.chunk)
    if first_point != (work.first_point if end is None else end):
        return False
    chunk_pieces.insert_piece(
        connection,
        team_id=work.team_id,
        batch_id=work.batch_id,
        chunk=work.chunk,
        first_point=first_point,
        num_points=piece.num_points,
        model_version=MODEL_VERSION,
        payload=payload,
        now=now,
    )
    return True


def encoded(piece: Piece) -> bytes:
    """The piece as bytes; every bit of its columns comes back."""
    packed = {name: pack(values) for name, values in piece.table.items()}
    columns = [_Column(name, found.kind, found.data) for name, found in packed.items()]
    return msgspec.msgpack.encode(_Payload(columns, piece.progress))


def decoded(payload: bytes, num_points: int) -> Piece:
    """The piece of the bytes; raises one of `UNREADABLE` when they are not one."""
    found = msgspec.msgpack.decode(payload, type=_Payload)
    if any(column.kind not in DTYPES for column in found.columns):
        raise ValueError("a column is of an unknown kind")
    piece = Piece(
        table={
            column.name: unpack(column.kind, num_points, column.data) for column in found.columns
        },
        progress=found.progress,
    )
    if piece.num_points != num_points:
        raise ValueError(f"{piece.num_points} points are counted, but there are {num_points}")
    return piece


def _fitting(row: Row[Any], before: Sequence[Piece]) -> Piece | None:
    """The row's piece if it goes on after those before; None when it does not."""
    if row.model_version != MODEL_VERSION or len(row.payload) > MAX_PAYLOAD_BYTES:
        return None
    try:
        piece = decoded(row.payload, row.num_points)
    except UNREADABLE:
        return None
    return piece if not before or piece.table.keys() == before[0].table.keys() else None
