"""The steps of running a batch: load a chunk, store it, finish. Each is one transaction.

Nothing here knows who calls it, how often or in which order: the ledger decides what is done.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
from msgspec import Struct

from service.db import batches, chunk_pieces
from service.db.block_copies import copy_blocks
from service.db.blocks import read_columns, write_blocks
from service.db.encoded_blocks import BLOCK_POINTS
from service.db.engine import Connection, Row
from service.jobs.chunks import CHUNK_POINTS, ComputedChunk, ItemSpan


class ChunkWork(Struct, frozen=True, kw_only=True):
    """A chunk that is to be recorded: `spans` are the items that have points in it."""

    batch_id: UUID
    team_id: UUID
    chunk: int
    columns: tuple[str, ...]
    spans: list[ItemSpan]
    item_ids: dict[int, UUID]
    source: UUID | None
    is_first: bool
    chunk_points: int = CHUNK_POINTS

    @property
    def first_point(self) -> int:
        """The first point of the chunk."""
        return self.chunk * self.chunk_points

    @property
    def blocks(self) -> range:
        """The blocks that a whole chunk in its place has."""
        each = self.chunk_points // BLOCK_POINTS
        return range(self.chunk * each, (self.chunk + 1) * each)

    @property
    def num_points(self) -> int:
        """Points of the chunk."""
        return sum(points for _, points in self.item_points())

    def item_points(self) -> list[tuple[int, int]]:
        """For each item of the chunk its position and how many points it has there."""
        stop = self.first_point + self.chunk_points
        return [
            (
                span.position,
                min(stop, span.first_point + span.num_points)
                - max(self.first_point, span.first_point),
            )
            for span in self.spans
        ]


class ReusedChunk(Struct, frozen=True, kw_only=True):
    """The chunk of an identical batch, with the progress of its items as `ComputedChunk` has it."""

    source: UUID
    progress: list[tuple[int, int, int]]


class FailedChunk(Struct, frozen=True, kw_only=True):
    """A chunk that cannot be computed, and why."""

    reason: str


ChunkOutcome = ComputedChunk | ReusedChunk | FailedChunk


class BatchEndedError(Exception):
    """The batch was ended (canceled, expired, deleted) while the chunk was computed."""


class SourceGoneError(Exception):
    """The batch whose blocks were to be copied is deleted: the chunk must be computed."""


def load_chunk(
    connection: Connection, batch_id: UUID, chunk: int, now: datetime
) -> ChunkWork | None:
    """What is to be done for a chunk; None when it is recorded or the batch takes no more."""
    batch = batches.find_batch(connection, batch_id)
    if batch is None or not takes_chunks(batch, now):
        return None
    if batches.get_chunk(connection, batch_id, chunk) is not None:
        return None
    start = chunk * batch.chunk_points
    items = batches.items_of_points(connection, batch_id, start, start + batch.chunk_points)
    return ChunkWork(
        batch_id=batch.id,
        team_id=batch.team_id,
        chunk=chunk,
        columns=tuple(batch.columns),
        spans=[_span(item) for item in items],
        item_ids={item.position: item.id for item in items},
        source=batch.reused_from,
        is_first=batch.state == "queued",
        chunk_points=batch.chunk_points,
    )


def find_reusable(connection: Connection, work: ChunkWork) -> ReusedChunk | None:
    """The stored chunk of the identical batch, if it is there and was computed."""
    if work.source is None:
        return None
    source = batches.find_batch(connection, work.source)
    recorded = batches.get_chunk(connection, work.source, work.chunk)
    if source is None or source.deleted_at is not None:
        return None
    if source.chunk_points != work.chunk_points:
        return None
    if recorded is None or recorded.failure is not None:
        return None
    found = read_columns(connection, work.source, ("item", "failure"), work.blocks)
    positions = found["item"].astype(np.int64)
    if len(positions) != work.num_points:
        return None
    failed = np.bincount(positions[found["failure"] != 0], minlength=int(positions.max()) + 1)
    return ReusedChunk(
        source=work.source,
        progress=[
            (position, points, int(failed[position])) for position, points in work.item_points()
        ],
    )


def is_wanted(connection: Connection, batch_id: UUID, now: datetime) -> bool:
    """Whether the batch still takes chunks."""
    batch = batches.find_batch(connection, batch_id)
    return batch is not None and takes_chunks(batch, now)


def start(connection: Connection, batch_id: UUID, now: datetime) -> None:
    """Note that the first chunk of the batch is being computed."""
    batches.start_batch(connection, batch_id, now)


def store_chunk(
    connection: Connection, work: ChunkWork, outcome: ChunkOutcome, *, worker: str, now: datetime
) -> None:
    """Write the chunk's blocks, its ledger row and the progress; its pieces are deleted.

    Nothing is written for a chunk that is recorded already. Raises `BatchEndedError` when the
    batch takes no more and `SourceGoneError` when there is nothing to copy any more: then the
    transaction must be rolled back.
    """
    # The blocks first: the batch's row, which all its chunks must lock, is held for the short rest.
    if batches.get_chunk(connection, work.batch_id, work.chunk) is not None:
        return
    progress = _write(connection, work, outcome)
    batch = batches.lock_batch(connection, work.batch_id)
    if batch is None or not takes_chunks(batch, now):
        raise BatchEndedError
    batches.record_chunk(
        connection,
        team_id=work.team_id,
        batch_id=work.batch_id,
        chunk=work.chunk,
        items=[(work.item_ids[position], points, failed) for position, points, failed in progress],
        now=now,
        worker=worker,
        failure=outcome.reason if isinstance(outcome, FailedChunk) else None,
    )
    chunk_pieces.delete_pieces(connection, work.batch_id, work.chunk)


def fail_chunk(
    connection: Connection, batch_id: UUID, chunk: int, reason: str, *, worker: str, now: datetime
) -> None:
    """Record that a chunk cannot be computed, unless it is recorded or the batch has ended."""
    work = load_chunk(connection, batch_id, chunk, now)
    if work is not None:
        store_chunk(connection, work, FailedChunk(reason=reason), worker=worker, now=now)


def takes_chunks(batch: Row[Any], now: datetime) -> bool:
    """Whether chunks of the batch are still computed and stored."""
    if batch.state not in {"queued", "running"} or batch.deleted_at is not None:
        return False
    return batch.deadline_at is None or batch.deadline_at > now


def _write(
    connection: Connection, work: ChunkWork, outcome: ChunkOutcome
) -> list[tuple[int, int, int]]:
    if isinstance(outcome, FailedChunk):
        return [(position, points, points) for position, points in work.item_points()]
    if isinstance(outcome, ComputedChunk):
        write_blocks(connection, work.team_id, work.batch_id, work.blocks.start, outcome.blocks)
        return outcome.progress
    copied = copy_blocks(
        connection,
        source=outcome.source,
        target=work.batch_id,
        team_id=work.team_id,
        first=work.blocks.start,
        stop=work.blocks.stop,
    )
    if copied == 0:
        raise SourceGoneError
    return outcome.progress


def _span(item: Row[Any]) -> ItemSpan:
    return ItemSpan(
        position=item.position,
        scenario=msgspec.json.encode(item.scenario),
        axes=msgspec.json.encode(item.axes),
        first_point=item.first_point,
        num_points=item.num_points,
    )
