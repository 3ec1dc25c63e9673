"""Single steps of a batch, as the engine's workflows take them, for tests of half-way states."""

from datetime import UTC, datetime
from uuid import UUID

from service.db.engine import Database
from service.jobs import batch_ends, batch_runs
from service.jobs.batch_runs import FailedChunk
from service.jobs.chunks import compute_chunk

WORKER = "this thread"


def record(database: Database, batch_id: UUID, chunk: int, *, failure: str | None = None) -> None:
    """Compute a chunk and store it, or give it up with the reason; a recorded one stays."""
    now = datetime.now(UTC)
    with database.read() as connection:
        work = batch_runs.load_chunk(connection, batch_id, chunk, now)
    if work is None:
        return
    outcome = (
        compute_chunk(chunk, work.spans, work.columns, work.chunk_points)
        if failure is None
        else FailedChunk(reason=failure)
    )
    with database.write() as connection:
        batch_runs.start(connection, batch_id, now)
        batch_runs.store_chunk(connection, work, outcome, worker=WORKER, now=now)


def end(database: Database, batch_id: UUID) -> bool:
    """End the batch if it is due; whether it ended."""
    with database.write() as connection:
        return batch_ends.finish(connection, batch_id, datetime.now(UTC)) is not None
