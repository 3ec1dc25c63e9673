"""What every computing process looks after, once a second.

Nothing depends on a message that could be lost: a batch is enqueued because its row says that it
is not, and ended because it is due, whoever was killed in between.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from service.db import batches, requeue, workers
from service.db.engine import Row
from service.db.process_locks import SessionLock
from service.jobs.chunks import num_chunks
from service.jobs.deletions import mark_expired
from service.jobs.engine import WORKFLOW_VERSION, Engine
from service.jobs.tasks import TASKS

BATCHES_PER_SWEEP = 20
TASKS_PER_SWEEP = 100
# A process that is not seen for so long is stopped or cut off; what it wakes up with is fenced.
UNSEEN_S = 15.0
FORGET_WORKERS_S = 3_600.0
KEEP_WORKFLOWS_S = 86_400.0

log = structlog.get_logger()


def send_batch(engine: Engine, batch: Row[Any]) -> None:
    """Enqueue the chunks of a batch that the ledger does not have."""
    with engine.database.read() as connection:
        written = batches.written_chunks(connection, batch.id)
    missing = sorted(set(range(num_chunks(batch.points_total, batch.chunk_points))) - written)
    engine.enqueue_chunks(batch.id, batch.team_id, batch.priority, missing)
    with engine.database.write() as connection:
        batches.mark_sent(connection, batch.id, WORKFLOW_VERSION)


def send_batches(engine: Engine) -> int:
    """Enqueue the batches that are not enqueued yet; how many there were."""
    with engine.database.read() as connection:
        unsent = batches.unsent_batches(connection, WORKFLOW_VERSION, BATCHES_PER_SWEEP)
    for batch in unsent:
        send_batch(engine, batch)
    return len(unsent)


def send_tasks(engine: Engine) -> int:
    """Enqueue the tasks that are not enqueued yet; how many there were."""
    with engine.database.read() as connection:
        unsent = [
            (task, list(task.unsent(connection, WORKFLOW_VERSION))[:TASKS_PER_SWEEP])
            for task in TASKS.values()
        ]
    sent = 0
    for task, rows in unsent:
        for row_id in rows:
            engine.enqueue_task(task.name, row_id, is_nightly=task.is_nightly)
        if rows:
            with engine.database.write() as connection:
                task.mark_sent(connection, rows, WORKFLOW_VERSION)
        sent += len(rows)
    return sent


def end_batches(engine: Engine) -> None:
    """End the batches that are to be canceled, are past their deadline or have all points."""
    now = datetime.now(UTC)
    with engine.database.read() as connection:
        due = batches.batches_to_end(connection, now, BATCHES_PER_SWEEP)
    for batch_id in due:
        engine.workflows.end(batch_id, alone=True)


def record_given_up(engine: Engine) -> None:
    """Turn workflows that are not tried again into failed chunks and tasks of ours."""
    for workflow_id, subject, reason in engine.given_up():
        kind, _, rest = subject.partition(":")
        if kind == "chunk":
            batch_id, _, chunk = rest.partition(":")
            engine.workflows.fail_chunk(UUID(batch_id), int(chunk), f"chunk {chunk} {reason}")
        elif kind in TASKS:
            engine.workflows.fail_task(kind, UUID(rest), reason)
        log.error("workflow_given_up", workflow=workflow_id, reason=reason)
        engine.forget([workflow_id])


def requeue_orphans(engine: Engine, known: set[str]) -> set[str]:
    """Take up what this process has lost sight of; `known` are those of the last time.

    Only what is lost twice in a row: in between a workflow is claimed and not begun, or ended and
    not recorded yet.
    """
    found = engine.orphans()
    lost = found & known
    if lost:
        log.warning("workflows_requeued", workflows=sorted(lost))
        engine.requeue(lost)
    return found - lost


def reap(engine: Engine, lock: SessionLock) -> None:
    """Take over the work of processes whose lock is free, or that are not seen any more."""
    others = engine.busy_names() - {engine.name}
    if not others:
        return
    with engine.database.read() as connection:
        seen = {row.id: row.seen_at for row in workers.list_workers(connection)}
    unseen_since = datetime.now(UTC) - timedelta(seconds=UNSEEN_S)
    silent = {name for name in others if seen.get(name, unseen_since) < unseen_since}
    dead = sorted(silent | {name for name in others if lock.is_free(name)})
    for name in sorted(silent):
        lock.end_sessions(name)
    if dead:
        log.warning("workers_taken_over", workers=dead, silent=sorted(silent), by=engine.name)
        engine.take_over(dead)


def note_alive(engine: Engine, *, role: str, host: str, process: int) -> None:
    """Renew this process's heartbeat."""
    with engine.database.write() as connection:
        workers.record_worker(
            connection,
            name=engine.name,
            role=role,
            host=host,
            process=process,
            compute_processes=engine.pool.processes,
            now=datetime.now(UTC),
        )


def forget_alive(engine: Engine) -> None:
    """Remove this process's heartbeat: it ends in good order."""
    with engine.database.write() as connection:
        workers.forget_worker(connection, engine.name)


def has_unfinished(engine: Engine) -> bool:
    """Whether a batch or a task of a former process is left; all of them are enqueued anew.

    The engine's own file may be newer or older than ours, or gone: what is enqueued stays so.
    """
    with engine.database.read() as connection:
        tasks = any(task.unsent(connection, WORKFLOW_VERSION + 1) for task in TASKS.values())
        unfinished = batches.has_unfinished(connection)
    if tasks or unfinished:
        with engine.database.write() as connection:
            requeue.forget_sent(connection)
    return tasks or unfinished


def expire(engine: Engine, retention_days: int) -> None:
    """Mark the batches that are past their retention; their deletion is a task like others."""
    with engine.database.write() as connection:
        mark_expired(connection, datetime.now(UTC), retention_days)


def tidy(engine: Engine) -> None:
    """Forget old workflows and workers."""
    now = datetime.now(UTC)
    with engine.database.write() as connection:
        workers.forget_unseen(connection, now - timedelta(seconds=FORGET_WORKERS_S))
    engine.forget(engine.done_before(now - timedelta(seconds=KEEP_WORKFLOWS_S), 1_000))
