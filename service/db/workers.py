"""Processes that compute: who they are and when they were last seen."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from service.db.tables import worker


def record_worker(
    connection: Connection,
    *,
    name: str,
    role: str,
    host: str,
    process: int,
    compute_processes: int,
    now: datetime,
) -> None:
    """Note that the process lives; the first time with all that is known of it."""
    seen = connection.execute(update(worker).where(worker.c.id == name).values(seen_at=now))
    if seen.rowcount == 0:
        connection.execute(
            insert(worker).values(
                id=name,
                role=role,
                host=host,
                process=process,
                compute_processes=compute_processes,
                started_at=now,
                seen_at=now,
            )
        )


def forget_worker(connection: Connection, name: str) -> None:
    """Remove a process that has ended."""
    connection.execute(delete(worker).where(worker.c.id == name))


def forget_unseen(connection: Connection, since: datetime) -> None:
    """Remove the processes that have not been seen since then."""
    connection.execute(delete(worker).where(worker.c.seen_at < since))


def list_workers(connection: Connection) -> list[Row[Any]]:
    """All processes, the oldest first."""
    return list(connection.execute(select(worker).order_by(worker.c.started_at, worker.c.id)))


def num_alive(connection: Connection, since: datetime) -> int:
    """How many processes have been seen since then."""
    return (
        connection.scalar(select(func.count()).select_from(worker).where(worker.c.seen_at >= since))
        or 0
    )
