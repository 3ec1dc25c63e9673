"""Chunks in pieces, computed in this process and interrupted between any two of them."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast
from uuid import UUID

from sqlalchemy import select

from service.db.engine import Connection, Database, Row
from service.db.tables import chunk_piece
from service.jobs.compute_pool import ComputePool
from service.jobs.workflows import Workflows

SMALL_CHUNK = 10_000


class HerePool:
    """Stands where the compute processes are: acts at once, and notes which points.

    `act_before(n)` is called before the n-th piece, counted from 0.
    """

    def __init__(self, act_before: Callable[[int], None] = lambda number: None) -> None:  # noqa: ARG005
        self.spans: list[tuple[int, int]] = []
        self._act_before = act_before

    def submit(self, act: Any) -> "Future[Any]":
        self._act_before(len(self.spans))
        self.spans.append(act.args[2:4])
        found: Future[Any] = Future()
        found.set_result(act())
        return found


def workflows_of(database: Database, here: HerePool) -> Workflows:
    """Workflows that compute with `here`."""

    def transact(write: Callable[[Connection], None]) -> None:
        with database.write() as connection:
            write(connection)

    pool = ComputePool(1)
    cast("Any", pool)._ready = lambda: here
    return Workflows(database, pool, "test", transact)


def pieces_of(database: Database, batch_id: UUID) -> list[Row[Any]]:
    """The kept pieces of the batch, in the order of their points."""
    c = chunk_piece.c
    with database.read() as connection:
        return list(
            connection.execute(
                select(chunk_piece).where(c.batch_id == batch_id).order_by(c.chunk, c.first_point)
            )
        )
