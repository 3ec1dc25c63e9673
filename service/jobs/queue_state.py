"""The state of the whole queue, over all processes and teams: for metrics and readiness."""

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from service.db import deliveries, queue_state, run_queue, workers
from service.db.batches import UNFINISHED
from service.db.engine import Connection, Row
from service.jobs.sweeper import UNSEEN_S
from service.jobs.task import Task
from service.jobs.tasks import TASKS

# A worker notes every 3 s that it lives; the others take over the work of one unseen for so long.
ALIVE_S = UNSEEN_S
# Points per second are the mean over so long.
RATE_WINDOW_S = 60.0
FAILED_WINDOW_S = 86_400.0
DELIVERY_STATES = ("pending", "delivered", "dead", "skipped", "canceled")
# No workflow has it, so that every unfinished task counts as not sent to it.
_NO_VERSION = -1


class QueueState(Struct, frozen=True, kw_only=True):
    """What waits, what runs and who computes, at one moment."""

    batches: dict[str, int]
    queue_age_s: float
    chunks_waiting: int
    chunks_failed: int
    points_per_second: float
    workers_alive: int
    tasks_waiting: dict[str, int]
    runs: dict[str, int]
    runs_due_age_s: float
    deliveries: dict[str, int]
    deliveries_age_s: float
    slots_missed: int


class WorkerOut(Struct, frozen=True, kw_only=True):
    """A process that computes, or did lately."""

    id: str
    role: Annotated[str, Meta(description="embedded (in the serving process) or worker.")]
    host: str
    process: Annotated[int, Meta(description="Its process id there.")]
    compute_processes: Annotated[int, Meta(description="Chunks that it computes at a time.")]
    started_at: datetime
    seen_at: Annotated[datetime, Meta(description="Renewed every few seconds.")]
    alive: Annotated[
        bool, Meta(description=f"Seen in the last {ALIVE_S:.0f} s; the others do its work if not.")
    ]


class WorkerList(Struct, frozen=True, kw_only=True):
    """All of them, the oldest first; one that ended in good order is not listed any more."""

    items: list[WorkerOut]


def read_queue_state(connection: Connection, now: datetime) -> QueueState:
    """Count what waits and what was done lately; a few reads of indexes, whatever is stored.

    A batch waits until its first chunk is begun: `queue_age_s` is 0 when none does.
    """
    found = {row.state: row for row in queue_state.unfinished_batches(connection)}
    done = queue_state.points_recorded(connection, now - timedelta(seconds=RATE_WINDOW_S))
    sent, waits_since = deliveries.num_by_state(connection), deliveries.oldest_pending(connection)
    failed_since = now - timedelta(seconds=FAILED_WINDOW_S)
    due_since = run_queue.oldest_due(connection)
    return QueueState(
        batches={state: found[state].num_batches if state in found else 0 for state in UNFINISHED},
        queue_age_s=(
            max(0.0, (now - found["queued"].oldest_at).total_seconds()) if "queued" in found else 0
        ),
        # The chunks of a batch that is being canceled are not computed any more.
        chunks_waiting=sum(
            int(row.num_chunks) for row in found.values() if row.state != "canceling"
        ),
        chunks_failed=queue_state.chunks_failed(connection, failed_since),
        points_per_second=done / RATE_WINDOW_S,
        workers_alive=workers.num_alive(connection, now - timedelta(seconds=ALIVE_S)),
        tasks_waiting={task.name: _num_unfinished(connection, task) for task in TASKS.values()},
        runs=run_queue.unfinished_runs(connection),
        deliveries={state: sent.get(state, 0) for state in DELIVERY_STATES},
        deliveries_age_s=0.0
        if waits_since is None
        else max(0.0, (now - waits_since).total_seconds()),
        runs_due_age_s=0.0 if due_since is None else max(0.0, (now - due_since).total_seconds()),
        slots_missed=run_queue.num_missed(connection, failed_since),
    )


def _num_unfinished(connection: Connection, task: Task) -> int:
    if task.num_unfinished is not None:
        return task.num_unfinished(connection)
    return len(task.unsent(connection, _NO_VERSION))


def _age_s(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())


def list_workers(connection: Connection, now: datetime) -> WorkerList:
    """The processes that compute, and whether they live."""
    silent = now - timedelta(seconds=ALIVE_S)
    return WorkerList(
        items=[
            _worker(row, alive=row.seen_at >= silent) for row in workers.list_workers(connection)
        ]
    )


def _worker(row: Row[tuple[object, ...]], *, alive: bool) -> WorkerOut:
    return WorkerOut(
        id=row.id,
        role=row.role,
        host=row.host,
        process=row.process,
        compute_processes=row.compute_processes,
        started_at=row.started_at,
        seen_at=row.seen_at,
        alive=alive,
    )
