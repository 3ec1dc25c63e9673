"""The failed points of a batch, each with its reason, in the order of the points.

Rules are pure: the reason of a point that breaks one is worked out again, not stored. A chunk
that could not be computed has one reason for all its points, in the ledger.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec
import numpy as np

from service.db import batches
from service.db.chunk_faults import faulty_chunks
from service.db.engine import Connection, Row
from service.jobs.actors import Actor
from service.jobs.batch_documents import PointFaultOut, PointFaultPage
from service.jobs.batches import require_batch
from service.jobs.chunks import grid_of
from service.jobs.page_tokens import make_token, read_token
from service.model.rules import describe_failure

NOT_COMPUTED = "chunk_not_computed"


def list_faults(
    connection: Connection, actor: Actor, batch_id: UUID, *, page_size: int, page_token: str | None
) -> PointFaultPage:
    """A page of failed points; raises `NotFoundError`, `MalformedError` for a foreign token."""
    batch = require_batch(connection, actor, batch_id)
    query = ["faults", str(batch_id)]
    after = read_token(page_token, query, int)
    first = 0 if after is None else after + 1
    # Every one of these chunks has a failed point, so that no more are needed for a page.
    chunk = first // batch.chunk_points
    chunks = faulty_chunks(connection, batch_id, first=chunk, limit=page_size + 2)
    items = batches.list_items(connection, [batch_id]) if chunks else []
    found = list(islice(_faults(items, chunks, first, batch.chunk_points), page_size + 1))
    shown = found[:page_size]
    more = len(found) > page_size
    return PointFaultPage(
        errors_total=batch.points_failed,
        items=shown,
        next_page_token=make_token(query, shown[-1].point) if more else None,
    )


def _faults(
    items: Sequence[Row[Any]], chunks: Sequence[Row[Any]], first: int, chunk_points: int
) -> Iterator[PointFaultOut]:
    """Yield the failed points from `first` on, worked out one by one as they are asked for."""
    for chunk in chunks:
        start = max(first, chunk.chunk * chunk_points)
        stop = (chunk.chunk + 1) * chunk_points
        for item in items:
            begin = max(start, item.first_point) - item.first_point
            end = min(stop, item.first_point + item.num_points) - item.first_point
            if begin >= end:
                continue
            if chunk.failure is not None:
                yield from _uncomputed(item, begin, end, chunk.failure)
            elif item.points_failed:
                yield from _broken_rules(item, begin, end)


def _uncomputed(item: Row[Any], begin: int, end: int, failure: str) -> Iterator[PointFaultOut]:
    grid = grid_of(msgspec.json.encode(item.scenario), msgspec.json.encode(item.axes))
    for point in range(begin, end):
        yield PointFaultOut(
            item=item.position,
            custom_id=item.custom_id,
            point=item.first_point + point,
            inputs=grid.inputs_at(point),
            pointer="",
            code=NOT_COMPUTED,
            detail=failure,
        )


def _broken_rules(item: Row[Any], begin: int, end: int) -> Iterator[PointFaultOut]:
    grid = grid_of(msgspec.json.encode(item.scenario), msgspec.json.encode(item.axes))
    failure = grid.failures(begin, end)
    for offset in np.flatnonzero(failure).tolist():
        point = begin + offset
        fault = describe_failure(int(failure[offset]), grid.point_scenario(point))
        yield PointFaultOut(
            item=item.position,
            custom_id=item.custom_id,
            point=item.first_point + point,
            inputs=grid.inputs_at(point),
            pointer=fault.pointer,
            code=fault.code,
            detail=fault.detail,
        )
