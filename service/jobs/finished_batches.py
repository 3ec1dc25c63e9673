"""An ended batch together with the first page of its results."""

from uuid import UUID

import msgspec

from service.db.engine import Connection
from service.jobs import batches, results
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut
from service.jobs.result_documents import ResultPage
from service.jobs.result_queries import ResultsQuery


class FinishedBatch(BatchOut, frozen=True, kw_only=True):
    """An ended batch and its results."""

    results: ResultPage


def read_finished(connection: Connection, actor: Actor, batch_id: UUID) -> FinishedBatch:
    """The batch with its results in the order of the points.

    Raises `NotFoundError`, and `ConflictError` when it has not ended.
    """
    page = results.list_page(connection, actor, ResultsQuery(batch=batch_id))
    batch = batches.get(connection, actor, batch_id)
    return FinishedBatch(**msgspec.structs.asdict(batch), results=page)
