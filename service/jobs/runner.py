"""Runs batches in the serving process, off the event loop: a thread, and a pool of processes.

The durable engine of a later version replaces this file; the use cases know nothing of it.
A batch is held by a lease that every chunk renews, so that a killed process's batch is taken
up again by the next one, from the chunks that the ledger does not have.
"""

import multiprocessing
import multiprocessing.connection
import os
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime, timedelta

import structlog

from service.db.engine import Database, OperationalError
from service.jobs import batch_runs
from service.jobs.batch_runs import Run
from service.jobs.chunks import ComputedChunk, compute_chunk

LEASE_S = 20.0
RENEW_S = 5.0
IDLE_POLL_S = 1.0
INLINE_POINTS = 20_000
MAX_POOL_FAILURES = 3

log = structlog.get_logger()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_with_parent() -> None:
    """In a compute process: end when the serving process does, however it ends.

    A killed parent cannot end its pool, and the pool's processes would wait for work for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


class LeaseLostError(Exception):
    """Another runner has taken the batch; nothing of this one is written any more."""


class Runner:
    """Takes queued batches one after the other until it is stopped."""

    def __init__(self, database: Database, *, processes: int = 0) -> None:
        self.name = f"{os.uname().nodename}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self.points_computed = 0
        self._database = database
        self._processes = processes or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; unfinished batches of a dead process are resumed when free."""
        self._thread = threading.Thread(target=self._loop, name="batch-runner", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for a new batch now."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the chunks that are being computed, give the batch back and end."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    @property
    def is_alive(self) -> bool:
        """Whether the thread still takes batches."""
        return self._thread is not None and self._thread.is_alive()

    def release_dead(self) -> None:
        """Take the leases from runners of this machine whose process is no more.

        A lease that is taken from a live runner (one whose processes are not seen from here) does
        no harm: it writes nothing once it has lost it.
        """
        with self._database.write() as connection:
            for name in batch_runs.holders(connection):
                host, _, rest = name.partition("/")
                process = rest.partition("/")[0]
                if host == os.uname().nodename and self._is_gone(name, int(process)):
                    batch_runs.release(connection, name)

    def _is_gone(self, name: str, process: int) -> bool:
        # A restarted container has the numbers of its predecessor: what has this process's
        # number and another name is dead.
        return name != self.name if process == os.getpid() else not _is_alive(process)

    def run_pending(self) -> int:
        """Run all batches that are free now in this thread; returns how many."""
        done = 0
        while not self._stopping.is_set() and self._run_next():
            done += 1
        return done

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self.release_dead()
                self.run_pending()
            except Exception:
                # The database may be away for a while; the lease brings the batch back later.
                log.exception("runner_failed", runner=self.name)
                self._stopping.wait(IDLE_POLL_S)
            self._wake.wait(IDLE_POLL_S)

    def _run_next(self) -> bool:
        now = datetime.now(UTC)
        with self._database.write() as connection:
            run = batch_runs.claim(
                connection, runner=self.name, now=now, lease_until=now + timedelta(seconds=LEASE_S)
            )
        if run is None:
            return False
        log.info("batch_started", batch=str(run.batch_id), chunks=len(run.chunks))
        try:
            self._run(run)
        except LeaseLostError:
            log.warning("batch_lease_lost", batch=str(run.batch_id), runner=self.name)
        except OperationalError:
            # The database is away: the lease ends and the batch is taken up again.
            raise
        except Exception as error:
            log.exception("batch_failed", batch=str(run.batch_id))
            self._end(run, failure=f"{type(error).__name__} while computing; see the log")
        return True

    def _run(self, run: Run) -> None:
        for computed in self._computed(run):
            self._store(run, computed)
            self.points_computed += sum(points for _, points, _ in computed.progress)
        if self._stopping.is_set() and run.chunks:
            self._hold(run, give_back=True)
        else:
            self._end(run)

    def _end(self, run: Run, failure: str | None = None) -> None:
        with self._database.write() as connection:
            batch_runs.finish(
                connection, run, runner=self.name, now=datetime.now(UTC), failure=failure
            )

    def _store(self, run: Run, computed: ComputedChunk) -> None:
        self._hold(run, computed=computed)
        run.chunks.discard(computed.chunk)

    def _hold(
        self, run: Run, *, computed: ComputedChunk | None = None, give_back: bool = False
    ) -> None:
        """Renew the lease, with a chunk's rows in the same transaction if there is one."""
        now = datetime.now(UTC)
        lease_until = None if give_back else now + timedelta(seconds=LEASE_S)
        with self._database.write() as connection:
            state = batch_runs.hold(connection, run, runner=self.name, lease_until=lease_until)
            if state is None:
                raise LeaseLostError
            if computed is not None:
                batch_runs.store_chunk(connection, run, computed, now)
        run.canceling = state == "canceling"

    def _computed(self, run: Run) -> Iterator[ComputedChunk]:
        """Yield the chunks that are not stored yet, as they are computed, until told to stop."""
        if run.num_points <= INLINE_POINTS:
            for chunk in sorted(run.chunks):
                if run.canceling:
                    return
                yield compute_chunk(chunk, run.spans, run.columns)
            return
        failures = 0
        while run.chunks and not (run.canceling or self._stopping.is_set()):
            try:
                yield from self._computed_in_pool(run)
            except BrokenProcessPool:
                failures += 1
                self._pool = None
                log.warning("compute_process_died", batch=str(run.batch_id), failures=failures)
                if failures >= MAX_POOL_FAILURES:
                    raise

    def _computed_in_pool(self, run: Run) -> Iterator[ComputedChunk]:
        waiting = iter(sorted(run.chunks))
        running: set[Future[ComputedChunk]] = set()
        renewed = time.monotonic()
        while True:
            while len(running) < self._processes + 1 and not (
                run.canceling or self._stopping.is_set()
            ):
                chunk = next(waiting, None)
                if chunk is None:
                    break
                running.add(
                    self._pool_ready().submit(
                        compute_chunk, chunk, run.spans_of(chunk), run.columns
                    )
                )
            if not running:
                return
            done, running = wait(running, timeout=RENEW_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                renewed = time.monotonic()
            if time.monotonic() - renewed > RENEW_S:
                self._hold(run)
                renewed = time.monotonic()

    def _pool_ready(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned, not forked: the serving process has threads. A C call that holds the GIL
            # for 0.3 s froze the event loop for as long from a thread, 22-54 ms from a process.
            self._pool = ProcessPoolExecutor(
                max_workers=self._processes,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=end_with_parent,
            )
        return self._pool
