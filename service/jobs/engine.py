"""The durable engine: dbos, and the only module that knows it.

A chunk of a batch is one workflow, named by batch and number, so that it exists once however
often it is enqueued. It computes in a pool process and stores in one transaction together with
the engine's checkpoint. What dbos does and does not do, and what was measured: decision record 6
and the design page `stack.md`, "Durable jobs".
"""

import os
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import structlog
from dbos import DBOS, DBOSClient, DBOSConfig, SQLAlchemyDatasource
from dbos._dbos import _get_dbos_instance

from service.db.engine import Connection, Database
from service.db.failures import refusals_named
from service.db.job_engine import SCHEMA, data_url, step_engine, system_engine, system_url
from service.jobs.compute_pool import ComputePool
from service.jobs.workflows import HandedOverError, Workflows

APPLICATION = "trainard"
# Bumped only when a workflow changes so that it cannot go on from an older one's checkpoint: what
# an older version has enqueued is stranded, and the sweeper enqueues it anew under this number.
WORKFLOW_VERSION = 1
CHUNKS = "chunks"
TASKS_QUEUE = "tasks"
NIGHTLY_QUEUE = "nightly"
# How soon an idle engine begins. Each look costs 2-4 ms: with these, and the sweeper's, an idle
# process uses some 6 % of a core (measured).
POLL_S = 0.2
TASKS_POLL_S = 1.0
NOTIFICATIONS_POLL_S = 0.5
DRAIN_S = 30
# How often a chunk may take its whole process with it: kills by operators count as well.
MAX_RECOVERIES = 50
MAX_THREADS = 32

log = structlog.get_logger()


class Engine:
    """Enqueues in every process, and runs workflows where `launch` was called.

    dbos is one per process, so that at most one engine of a process can be launched. On PostgreSQL
    a worker's database must be opened with a `unique_name` as its session name.
    """

    def __init__(self, database: Database, *, processes: int = 0) -> None:
        self.database = database
        self.name = "local" if database.is_sqlite else database.session_name
        self.pool = ComputePool(processes or os.cpu_count() or 1)
        self.workflows = Workflows(
            database, self.pool, self.name, self._transact, on_ended=self._drop_waiting
        )
        self.is_launched = False
        self._lock = threading.Lock()
        self._client: DBOSClient | None = None
        self._system_engine: Any = None
        self._datasource: SQLAlchemyDatasource | None = None

    # Enqueueing: any process, any thread.

    def enqueue_chunks(
        self, batch_id: UUID, team_id: UUID, priority: int, chunks: list[int]
    ) -> None:
        """Enqueue chunks that are not recorded; those that wait or run stay as they are.

        Workflows of them that have ended (our database was restored from an older copy) are
        removed first: their numbers could not be enqueued again.
        """
        client = self._enqueuer()
        ended = client.list_workflows(
            workflow_ids=[_chunk_workflow(batch_id, chunk) for chunk in chunks],
            status=["SUCCESS", "ERROR", "CANCELLED"],
            load_input=False,
            load_output=False,
        )
        self.forget([workflow.workflow_id for workflow in ended])
        with self._system_engine.begin() as connection:
            for chunk in chunks:
                client.enqueue_in_transaction(
                    connection,
                    {
                        "workflow_name": "chunk",
                        "queue_name": CHUNKS,
                        "workflow_id": _chunk_workflow(batch_id, chunk),
                        "app_version": str(WORKFLOW_VERSION),
                        "priority": priority,
                        "queue_partition_key": str(team_id),
                    },
                    str(batch_id),
                    chunk,
                )

    def enqueue_task(self, name: str, row_id: UUID, *, is_nightly: bool) -> None:
        """Enqueue a task of `jobs/tasks.py`; one that is enqueued stays as it is."""
        self._enqueuer().enqueue(
            {
                "workflow_name": "task",
                "queue_name": NIGHTLY_QUEUE if is_nightly else TASKS_QUEUE,
                "workflow_id": f"{WORKFLOW_VERSION}:{name}:{row_id}",
                "app_version": str(WORKFLOW_VERSION),
            },
            name,
            str(row_id),
        )

    def _enqueuer(self) -> DBOSClient:
        with self._lock:
            if self._client is None:
                self._client = self._open_client()
            return self._client

    def _register_queues(self, client: DBOSClient) -> None:
        """Only where work is done: the places are as many as this process's."""
        # Known before the first launch: a queue that appears later is polled a second late.
        client.register_queue(
            CHUNKS,
            # One more than are computed, so that the pool never waits for the queue. A team alone
            # may take half of the places: the next team to come finds the other half free.
            worker_concurrency=2 * (self.pool.processes + 1),
            partition_worker_concurrency=self.pool.processes + 1,
            polling_interval_sec=POLL_S,
            application_name=APPLICATION,
        )
        for name in (TASKS_QUEUE, NIGHTLY_QUEUE):
            client.register_queue(
                name,
                worker_concurrency=2,
                polling_interval_sec=TASKS_POLL_S,
                application_name=APPLICATION,
            )

    def _open_client(self) -> DBOSClient:
        """Bring the engine's tables up to date first: the process may be the first one ever."""
        if self._system_engine is None:
            self._system_engine = system_engine(self.database)
        with self._system_engine.connect():
            # WAL is set by the first connection, before the engine's own makes the file.
            DBOS.migrate(system_url(self.database), schema=SCHEMA)
        return DBOSClient(
            system_database_engine=self._system_engine,
            dbos_system_schema=SCHEMA,
            application_name=APPLICATION,
        )

    # Running: one process for a SQLite file, any number of workers on PostgreSQL.

    def launch(self) -> None:
        """Take work from the queues, and what a former process of this name has left."""
        global _running  # noqa: PLW0603 - workflows are functions of the module, as dbos is
        self._register_queues(self._enqueuer())
        DBOS(config=self._config())
        self._datasource = SQLAlchemyDatasource.create(
            data_url(self.database), engine=step_engine(self.database), schema=SCHEMA
        )
        _running = self
        DBOS.launch()
        self.is_launched = True
        log.info("engine_launched", engine=self.name, processes=self.pool.processes)

    def stop(self, drain_s: float = DRAIN_S) -> None:
        """Take no more work, finish what is in hand, and leave the rest to others."""
        self.workflows.stop()
        if self.is_launched:
            # dbos looks once a second, and waits one even when nothing is in hand.
            patience_s = int(drain_s) if self.workflows.active else 0
            DBOS.destroy(workflow_completion_timeout_sec=patience_s)
            self.is_launched = False
        self.pool.close()
        if self._client is not None:
            self._client.destroy()
            self._system_engine.dispose()
        if self._datasource is not None:
            self._datasource.engine.dispose()

    def take_over(self, names: list[str]) -> None:
        """Put the work that dead processes have begun back into the queue.

        A process that is alive after all is fenced: it commits nothing more of that work.
        """
        # Private, and the reason for the exact pin: the public way resets the number of attempts,
        # so that a chunk that kills its process would be tried for ever.
        DBOS._recover_pending_workflows(names)  # noqa: SLF001

    def orphans(self) -> set[str]:
        """Workflows that this process has begun and does not have in hand any more.

        A full disk can keep dbos from recording how one has ended.
        """
        pending = self._enqueuer().list_workflows(
            status="PENDING", executor_id=self.name, load_input=False, load_output=False
        )
        # Read after the query: what has ended meanwhile is not taken for lost twice in a row.
        active = set(self.workflows.active)
        return {
            found.workflow_id
            for found in pending
            if found.workflow_id.split(":", 1)[1] not in active
        }

    def requeue(self, workflow_ids: set[str]) -> None:
        """Put orphans of this process back into their queue."""
        instance = _get_dbos_instance()
        for workflow_id in sorted(workflow_ids):
            # Private as `_recover_pending_workflows`, which takes all of a process's workflows.
            instance._sys_db.reenqueue_for_recovery(  # noqa: SLF001
                workflow_id, [self.name], CHUNKS
            )

    def _drop_waiting(self, batch_id: UUID, state: str) -> None:
        """Remove what is enqueued of a batch that has ended: other batches need not wait for it."""
        if state not in {"canceled", "expired"}:
            return
        waiting = self._enqueuer().list_workflows(
            status="ENQUEUED",
            workflow_id_prefix=f"{WORKFLOW_VERSION}:chunk:{batch_id}:",
            load_input=False,
            load_output=False,
        )
        self.forget([workflow.workflow_id for workflow in waiting])

    def busy_names(self) -> set[str]:
        """The processes, dead or alive, that have begun work and not ended it."""
        pending = self._enqueuer().list_workflows(
            status="PENDING", load_input=False, load_output=False
        )
        return {found.executor_id for found in pending if found.executor_id is not None}

    def given_up(self) -> list[tuple[str, str, str]]:
        """Workflows that dbos does not try again: (workflow, what it worked on, why)."""
        found = self._enqueuer().list_workflows(
            status=["MAX_RECOVERY_ATTEMPTS_EXCEEDED", "ERROR"],
            load_input=False,
            load_output=False,
            limit=100,
        )
        reasons = {"MAX_RECOVERY_ATTEMPTS_EXCEEDED": f"ended its process {MAX_RECOVERIES} times"}
        return [
            (
                workflow.workflow_id,
                workflow.workflow_id.split(":", 1)[1],
                reasons.get(workflow.status, "failed; see the log"),
            )
            for workflow in found
        ]

    def forget(self, workflow_ids: list[str]) -> None:
        """Remove workflows whose outcome is recorded in our own tables."""
        if workflow_ids:
            self._enqueuer().delete_workflows(workflow_ids)

    def done_before(self, moment: datetime, limit: int) -> list[str]:
        """Workflows that ended well before then."""
        found = self._enqueuer().list_workflows(
            status="SUCCESS",
            end_time=moment.isoformat(),
            load_input=False,
            load_output=False,
            limit=limit,
        )
        return [workflow.workflow_id for workflow in found]

    def _config(self) -> DBOSConfig:
        return {
            "name": APPLICATION,
            "system_database_engine": self._system_engine,
            "dbos_system_schema": SCHEMA,
            "executor_id": self.name,
            "application_version": str(WORKFLOW_VERSION),
            "log_level": "WARNING",
            "max_executor_threads": MAX_THREADS,
            "notification_listener_polling_interval_sec": NOTIFICATIONS_POLL_S,
            # The tables are up to date since `_open_client`.
            "run_migrations": False,
        }

    def _transact(self, write: Callable[[Connection], None]) -> None:
        """One transaction, the engine's checkpoint in it.

        Nothing commits if another process has taken the workflow over meanwhile.
        """
        datasource = self._datasource
        if datasource is None:
            raise HandedOverError
        with self.database.turn():
            datasource.run_tx_step(
                {
                    "name": "store",
                    # The default is SERIALIZABLE: chunks of one batch would fail each other.
                    "isolation_level": (
                        "SERIALIZABLE" if self.database.is_sqlite else "READ COMMITTED"
                    ),
                },
                lambda: _write_named(write, datasource.sql_session().connection()),
            )


def _write_named(write: Callable[[Connection], None], connection: Connection) -> None:
    with refusals_named():
        write(connection)


def unique_name() -> str:
    """A name for a computing process: unique for ever, and short enough for PostgreSQL."""
    return f"{os.uname().nodename[:40]}/{os.getpid()}/{uuid4().hex[:8]}"


_running: Engine | None = None


@DBOS.workflow(name="chunk", max_recovery_attempts=MAX_RECOVERIES)
def _chunk(batch_id: str, chunk: int) -> None:
    _launched().workflows.run_chunk(UUID(batch_id), chunk)


@DBOS.workflow(name="task", max_recovery_attempts=MAX_RECOVERIES)
def _task(name: str, row_id: str) -> None:
    _launched().workflows.run_task(name, UUID(row_id))


def _launched() -> Engine:
    if _running is None:
        raise HandedOverError
    return _running


def _chunk_workflow(batch_id: UUID, chunk: int) -> str:
    return f"{WORKFLOW_VERSION}:chunk:{batch_id}:{chunk}"
