"""Runs what waits in this process, without the engine: for tests of what comes before and after."""

from collections.abc import Callable, Collection
from uuid import UUID

from service.db import batches
from service.db.engine import Connection, Database
from service.jobs.chunks import num_chunks
from service.jobs.compute_pool import ComputePool
from service.jobs.task import Task
from service.jobs.tasks import TASKS
from service.jobs.workflows import Workflows

VERSION = 1


def complete(database: Database) -> int:
    """Run all unfinished batches and tasks; returns how many batches there were."""

    def transact(write: Callable[[Connection], None]) -> None:
        with database.write() as connection:
            write(connection)

    pool = ComputePool(1)
    workflows = Workflows(database, pool, "test", transact)
    done = 0
    try:
        while True:
            with database.read() as connection:
                waiting = batches.unsent_batches(connection, VERSION, 10)
            if not waiting:
                break
            for batch in waiting:
                with database.write() as connection:
                    batches.mark_sent(connection, batch.id, VERSION)
                for chunk in range(num_chunks(batch.points_total, batch.chunk_points)):
                    workflows.run_chunk(batch.id, chunk)
                done += 1
        for task in TASKS.values():
            seen: set[UUID] = set()
            # Some are held back until others of their kind have ended.
            while rows := _unseen(database, task, seen):
                seen.update(rows)
                for row in rows:
                    workflows.run_task(task.name, row)
    finally:
        pool.close()
    return done


def _unseen(database: Database, task: Task, seen: Collection[UUID]) -> list[UUID]:
    with database.read() as connection:
        return [row for row in task.unsent(connection, VERSION + 1) if row not in seen]
