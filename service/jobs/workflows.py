"""The steps of the workflows: compute and store a chunk, end its batch, run a task.

Each may be interrupted anywhere and is then run again, perhaps by another process: the ledger and
the rows' states decide what is left to do. Nothing here knows which engine runs it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import TypeVar
from uuid import UUID

import structlog

from service.db.engine import Connection, Database, OperationalError
from service.db.failures import NotStoredError, cause_of
from service.jobs import batch_ends, batch_runs
from service.jobs.batch_runs import (
    BatchEndedError,
    ChunkOutcome,
    ChunkWork,
    FailedChunk,
    ReusedChunk,
    SourceGoneError,
)
from service.jobs.chunks import ComputedChunk
from service.jobs.compute_pool import ComputePool, PoisonedChunkError
from service.jobs.piece_keeper import PieceKeeper
from service.jobs.spans import Attributes, first_span, span
from service.jobs.tasks import TASKS

# A full disk is given half a minute: 1 + 2 + 4 + 8 + 16 s.
STORE_ATTEMPTS = 5
FIRST_STORE_PAUSE_S = 1.0
TASK_PATIENCE_S = 60.0
# A machine short of memory or process numbers cannot start a compute process for a while.
COMPUTE_PATIENCE_S = 60.0

T = TypeVar("T")
Transact = Callable[[Callable[[Connection], None]], None]

log = structlog.get_logger()


class HandedOverError(BaseException):
    """The process stops: the workflow is left as it is, for another process to take over.

    No `Exception`, which the engine would record as the workflow's final outcome.
    """


class _Interrupted(Database):
    """The database of tasks: no transaction begins when the process is to stop.

    A task is many short transactions, and may be interrupted between any two of them.
    """

    def __init__(self, database: Database, stopping: threading.Event) -> None:
        # The same pool, and the same turns of its writers
        self.__dict__.update(database.__dict__)
        self._stopping = stopping

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """As `Database.read`, unless the process is to stop."""
        self._check()
        with super().read() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """As `Database.write`, unless the process is to stop."""
        self._check()
        with super().write() as connection:
            yield connection

    def _check(self) -> None:
        if self._stopping.is_set():
            raise HandedOverError


class Workflows:
    """Runs the workflows of one process; `transact` is the transaction that a chunk is stored in.

    `name` is written to the ledger beside the chunk, and `on_ended` is told the final state of a
    batch that this process has ended. `on_task_ended` is called after each task: others of its
    kind may have waited for it.
    """

    def __init__(
        self,
        database: Database,
        pool: ComputePool,
        name: str,
        transact: Transact,
        on_ended: Callable[[UUID, str], None] = lambda batch_id, state: None,  # noqa: ARG005
    ) -> None:
        self.database = database
        self.pool = pool
        self.name = name
        self.points_stored = 0
        self.active: set[str] = set()
        self.refusal: str | None = None
        self._transact = transact
        self._on_ended = on_ended
        self.on_task_ended: Callable[[], None] = lambda: None
        self._stopping = threading.Event()
        self._interrupted = _Interrupted(database, self._stopping)
        self._lock = threading.Lock()

    @property
    def is_stopping(self) -> bool:
        """Whether no more work is taken."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Begin nothing more, and wait for nothing that does not come."""
        self._stopping.set()

    def run_chunk(self, batch_id: UUID, chunk: int) -> None:
        """Compute and store one chunk; the one that stores the last one ends the batch."""
        attributes: Attributes = {"trainard.batch": str(batch_id), "trainard.chunk": chunk}
        with (
            self._counted(f"chunk:{batch_id}:{chunk}"),
            first_span("chunk", trace_id=batch_id, attributes=attributes) as found,
        ):
            work = self._patiently(lambda: self._begin(batch_id, chunk))
            if work is not None:
                found.note({"trainard.points": work.num_points})
                self._compute_and_store(work)
            self._patiently(lambda: self.end(batch_id))

    def run_task(self, name: str, row_id: UUID) -> None:
        """Run a task to its end; what it raises is its failure."""
        task = TASKS[name]
        attributes = {"trainard.task": name, "trainard.row": str(row_id)}
        with (
            self._counted(f"{name}:{row_id}"),
            first_span(f"task {name}", trace_id=row_id, attributes=attributes) as found,
        ):
            try:
                self._patiently(
                    lambda: task.run(self._interrupted, row_id), limit_s=TASK_PATIENCE_S
                )
            except Exception as error:
                log.exception("task_failed", task=name, row=str(row_id))
                found.fail()
                reason = f"{type(error).__name__}: {cause_of(error)}"
                # Fenced: a process that was stopped and taken over must not end the row.
                self._transact(lambda connection: task.fail(connection, row_id, reason))
        self.on_task_ended()

    def fail_chunk(self, batch_id: UUID, chunk: int, reason: str) -> None:
        """Record that a chunk cannot be computed."""
        with self.database.write() as connection:
            batch_runs.fail_chunk(
                connection, batch_id, chunk, reason, worker=self.name, now=datetime.now(UTC)
            )

    def fail_task(self, name: str, row_id: UUID, reason: str) -> None:
        """End a task's row with a reason."""
        with self.database.write() as connection:
            TASKS[name].fail(connection, row_id, reason)

    def _begin(self, batch_id: UUID, chunk: int) -> ChunkWork | None:
        now = datetime.now(UTC)
        with self.database.read() as connection:
            work = batch_runs.load_chunk(connection, batch_id, chunk, now)
        if work is not None and work.is_first:
            with self.database.write() as connection:
                batch_runs.start(connection, batch_id, now)
        return work

    def _compute_and_store(self, work: ChunkWork) -> None:
        reusable = self._patiently(lambda: self._reusable(work))
        try:
            if reusable is not None:
                try:
                    self._store(work, reusable)
                except SourceGoneError:
                    self._store(work, self._computed(work))
            else:
                self._store(work, self._computed(work))
        except BatchEndedError:
            log.info("chunk_not_wanted", batch=str(work.batch_id), chunk=work.chunk)

    def _reusable(self, work: ChunkWork) -> ReusedChunk | None:
        with self.database.read() as connection:
            return batch_runs.find_reusable(connection, work)

    def _computed(self, work: ChunkWork) -> ComputedChunk | FailedChunk:
        try:
            with span("chunk.compute"):
                return self._patiently(
                    lambda: self.pool.compute(
                        work, lambda: self._go_on(work), PieceKeeper(work, self.database)
                    ),
                    limit_s=COMPUTE_PATIENCE_S,
                    awaited=OSError,
                )
        except BatchEndedError:
            raise
        except PoisonedChunkError as error:
            return FailedChunk(reason=str(error))
        except Exception as error:
            if self.is_stopping:
                raise HandedOverError from error
            log.exception("chunk_failed", batch=str(work.batch_id), chunk=work.chunk)
            return FailedChunk(reason=f"{type(error).__name__} while computing; see the log")

    def _go_on(self, work: ChunkWork) -> None:
        """Give a long chunk up half way where nobody wants it any more or the process stops."""
        if self.is_stopping:
            raise HandedOverError
        try:
            with self.database.read() as connection:
                wanted = batch_runs.is_wanted(connection, work.batch_id, datetime.now(UTC))
        except OperationalError:
            # The database is away for a while: what is computed can be stored when it is back.
            return
        if not wanted:
            raise BatchEndedError

    def _store(self, work: ChunkWork, outcome: ChunkOutcome) -> None:
        """Store. A full disk is given half a minute, then the chunk fails, which needs little room.

        When there is no room for that either, nothing can be said anywhere: it waits for room.
        """
        failed: FailedChunk | None = None
        for attempt in count():
            try:
                if failed is not None and attempt >= STORE_ATTEMPTS and attempt % 2:
                    self._store_once(work, failed)
                else:
                    self._store_once(work, outcome)
            except (NotStoredError, OperationalError) as error:
                cause = cause_of(error)
                self.refusal = f"results cannot be stored: {cause}"
                log.warning("chunk_not_stored", attempt=attempt, reason=cause)
                failed = FailedChunk(reason=f"chunk {work.chunk} cannot be stored: {cause}")
                self._pause(FIRST_STORE_PAUSE_S * 2 ** min(attempt, STORE_ATTEMPTS - 1))
            else:
                return

    def _store_once(self, work: ChunkWork, outcome: ChunkOutcome) -> None:
        with span("chunk.store"):
            self._transact(
                lambda connection: batch_runs.store_chunk(
                    connection, work, outcome, worker=self.name, now=datetime.now(UTC)
                )
            )
        self.refusal = None
        self.points_stored += work.num_points

    def end(self, batch_id: UUID, *, alone: bool = False) -> None:
        """End the batch if it is due, whoever else tries the same; `alone`: not after a chunk."""
        with self.database.read() as connection:
            due = batch_ends.is_due(connection, batch_id, datetime.now(UTC))
        if not due:
            return
        attributes: Attributes = {"trainard.batch": str(batch_id)}
        with (
            first_span("batch.finish", trace_id=batch_id, attributes=attributes)
            if alone
            else span("batch.finish"),
            self.database.write() as connection,
        ):
            state = batch_ends.finish(connection, batch_id, datetime.now(UTC))
        if state is not None:
            log.info("batch_ended", batch=str(batch_id), state=state)
            self._on_ended(batch_id, state)

    def _patiently(
        self,
        act: Callable[[], T],
        *,
        limit_s: float = float("inf"),
        awaited: type[Exception] = OperationalError,
    ) -> T:
        """Act; while the database (or a process to compute in) is not to be had, again.

        A plain error would end the workflow for good.
        """
        started = time.monotonic()
        pause_s = 0.1
        while True:
            try:
                return act()
            except awaited as error:
                if time.monotonic() - started > limit_s:
                    raise
                log.warning("not_to_be_had", reason=cause_of(error))
            self._pause(pause_s)
            pause_s = min(pause_s * 2, 2.0)

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise HandedOverError

    @contextmanager
    def _counted(self, subject: str) -> Iterator[None]:
        """Note the workflow as in hand, for the drain; none begins while the engine stops."""
        if self.is_stopping:
            raise HandedOverError
        with self._lock:
            self.active.add(subject)
        try:
            yield
        finally:
            with self._lock:
                self.active.discard(subject)
