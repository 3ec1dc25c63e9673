"""The engine of one process and the thread that looks after it.

- embedded: a SQLite file. The process that serves computes too; of several on one file the first.
- worker: PostgreSQL. Computes; any number of them on any number of machines.
- client: PostgreSQL. The API process: it enqueues and cancels, and computes nothing.
"""

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import structlog

from service.db.engine import Database, OperationalError
from service.db.failures import disk_fault
from service.db.job_engine import job_file
from service.db.process_locks import FileLock, LockLostError, SessionLock
from service.jobs import audit_pruning, kept_answers, retention, sweeper, web_sessions
from service.jobs.audit_sealing import Sealer
from service.jobs.courier import Courier
from service.jobs.duties import Duty
from service.jobs.engine import Engine
from service.jobs.scheduler import Scheduler
from service.settings import Settings

Role = Literal["embedded", "worker", "client"]

SWEEP_EVERY_S = 1.0
REAP_EVERY_S = 2.0
HEARTBEAT_EVERY_S = 3.0
TIDY_EVERY_S = 60.0
LOCK_LOST_EXIT_CODE = 75

DEFAULTS = Settings()

log = structlog.get_logger()


def _end_process() -> None:
    os._exit(LOCK_LOST_EXIT_CODE)


class Runtime:
    """Starts and stops the engine; `on_lock_lost` is what a worker does without its lock."""

    def __init__(
        self,
        database: Database,
        *,
        role: Role | None = None,
        processes: int = 0,
        settings: Settings = DEFAULTS,
        on_lock_lost: Callable[[], None] = _end_process,
    ) -> None:
        self.role: Role = role or ("embedded" if database.is_sqlite else "client")
        self.engine = Engine(database, processes=processes)
        self._database = database
        self._settings = settings
        self._sealer = Sealer(database)
        # Of every role: slots and deliveries are taken by transactions, not by places.
        self._wake = threading.Event()
        self.engine.workflows.on_task_ended = self._wake.set
        self._duties: tuple[Duty, ...] = (
            Scheduler(database, settings.limits, self._wake.set).duty(),
            Courier(database, settings.deliveries).duty(),
        )
        self._on_lock_lost = on_lock_lost
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._session: SessionLock | None = None
        self._file = (
            FileLock(job_file(database).with_suffix(".lock")) if self.role == "embedded" else None
        )
        self._next: dict[str, float] = {}
        self._is_holder = False
        self._has_old_work = False
        self._orphans: set[str] = set()
        self._is_noted = False
        self._fault: str | None = None

    def start(self) -> None:
        """Start looking after the batches; a worker is ready for work when this returns."""
        if self.role == "worker":
            # Before the launch: work must never be begun under a name whose lock is free.
            self._session = SessionLock(self._database, self.engine.name)
            self._note_alive()
            self.engine.launch()
        self._thread = threading.Thread(target=self._loop, name="sweeper", daemon=True)
        self._thread.start()
        # Of every role, and of a process that waits for another one's lock too: each of them
        # makes changes, and their events must not wait for somebody else.
        self._sealer.start()
        for duty in self._duties:
            duty.start()

    def stop(self) -> None:
        """Drain and hand over: what is in hand is finished, the rest is left to others."""
        self._stopping.set()
        self._wake.set()
        for duty in self._duties:
            duty.stop()
        if self._thread is not None:
            self._thread.join()
        self.engine.stop()
        self._sealer.stop()
        if self.role != "client":
            self._quietly(lambda: sweeper.forget_alive(self.engine))
        if self.is_busy:
            # Kept until the process ends: nobody else may compute while something here still does.
            log.warning("work_left", workflows=sorted(self.engine.workflows.active))
            return
        for lock in (self._session, self._file):
            if lock is not None:
                lock.close()

    @property
    def is_alive(self) -> bool:
        """Whether batches are looked after."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_busy(self) -> bool:
        """Whether work is still in hand, after `stop` as well: then end the process."""
        return bool(self.engine.workflows.active)

    @property
    def fault(self) -> str | None:
        """Why batches do not go on, as long as they do not."""
        return self._fault or self.engine.workflows.refusal

    @property
    def points_stored(self) -> int:
        """Points that this process has computed and stored."""
        return self.engine.workflows.points_stored

    def wake(self) -> None:
        """A batch, a cancellation or a task was committed: look now. Returns at once."""
        self._wake.set()
        for duty in self._duties:
            duty.wake()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            self._quietly(self._sweep)
            self._wake.wait(SWEEP_EVERY_S)

    def _quietly(self, act: Callable[[], None]) -> None:
        try:
            act()
            self._fault = None
        except LockLostError:
            log.exception("worker_lock_lost", worker=self.engine.name)
            self._on_lock_lost()
        except OperationalError as error:
            self._fault = disk_fault(error) or f"the database is away: {error.orig}"
            log.warning("database_away", reason=str(error.orig))
        except Exception as error:
            # One fault must not end the only thread that ends batches.
            self._fault = f"{type(error).__name__}; see the log"
            log.exception("sweep_failed")

    def _sweep(self) -> None:
        if self._session is not None:
            self._session.check()
        if self._file is not None and not self._is_first(self._file):
            return
        if self.role != "client" and self._is_due("heartbeat", HEARTBEAT_EVERY_S):
            self._note_alive()
        # Before the engine is launched: a service that computes nothing has old batches too.
        if self._is_due("retention", TIDY_EVERY_S):
            self._remove_old()
        sent = sweeper.send_batches(self.engine) + sweeper.send_tasks(self.engine)
        sweeper.end_batches(self.engine)
        if self.role == "client" or not self._is_launched(has_work=sent > 0):
            return
        if self._is_due("reap", REAP_EVERY_S):
            sweeper.record_given_up(self.engine)
            self._orphans = sweeper.requeue_orphans(self.engine, self._orphans)
            if self._session is not None:
                sweeper.reap(self.engine, self._session)
        if self._is_due("tidy", TIDY_EVERY_S):
            sweeper.tidy(self.engine)

    def _remove_old(self) -> None:
        if self._settings.retention_days:
            sweeper.expire(self.engine, self._settings.retention_days)
        audit_pruning.apply_retention(self._database, self._settings.audit_retention_days)
        retention.apply(self._database, self._settings, datetime.now(UTC))
        kept_answers.forget_old(self._database)
        web_sessions.forget_expired(self._database, datetime.now(UTC))

    def _is_first(self, file: FileLock) -> bool:
        """Whether this process is the one that computes for the SQLite file."""
        if not self._is_holder:
            self._is_holder = file.acquire()
            if self._is_holder:
                self._has_old_work = sweeper.has_unfinished(self.engine)
        return self._is_holder

    def _is_launched(self, *, has_work: bool) -> bool:
        """Launch with the first work: a service that only evaluates needs no engine."""
        if not self.engine.is_launched and (has_work or self._has_old_work):
            self.engine.launch()
        return self.engine.is_launched

    def _is_due(self, duty: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._next.get(duty, 0.0):
            return False
        self._next[duty] = now + every_s
        return True

    def _note_alive(self) -> None:
        if not self._is_noted:
            # A killed process of a SQLite file has left its number and start under the same name.
            sweeper.forget_alive(self.engine)
            self._is_noted = True
        sweeper.note_alive(
            self.engine, role=self.role, host=os.uname().nodename, process=os.getpid()
        )
