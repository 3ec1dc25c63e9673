"""What a process does that computes batches until it is told to stop; tests kill and spoil it.

Its options are `NAME=VALUE`: `kill=POINT` ends it with SIGKILL at a named point of its work,
`nth=2` the second time that it gets there; `poison=1` lets chunk 1 kill its process; `pages=N` lets
SQLite's file grow by N pages only; `unseen_s`, `pause_s` shorten waits.
"""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from dbos import DBOSClient
from sqlalchemy import Pool, event

from service.api.logs import configure_logs
from service.db import batches as batch_rows
from service.db.engine import Database
from service.jobs import batch_ends, compute_pool, sweeper, workflows
from service.jobs.chunks import ComputedChunk, ItemSpan, compute_chunk
from service.jobs.engine import unique_name
from service.jobs.runtime import Runtime

# Where each point lies: the object, its attribute, and whether the call itself is still made.
POINTS: dict[str, tuple[object, str, bool]] = {
    "enqueue": (DBOSClient, "enqueue_in_transaction", True),
    "enqueued": (batch_rows, "mark_sent", False),
    "compute": (compute_pool.ComputePool, "compute", False),
    "computed": (compute_pool.ComputePool, "compute", True),
    "transaction": (batch_rows, "record_chunk", False),
    "before commit": (batch_rows, "record_chunk", True),
    "after commit": (workflows.Workflows, "_store_once", True),
    "finalisation": (batch_ends, "price_batch", False),
    "before the last commit": (batch_rows, "set_state", True),
    "after the last commit": (workflows.Workflows, "end", True),
}


def main(named: "Connection[str, str]", url: str, role: Any, *options: str) -> None:
    """Compute until SIGTERM; the engine's name is sent when it is ready."""
    os.setsid()
    # One of its own, which is killed with it: the one of the tests would tell what was left open.
    vars(resource_tracker._resource_tracker)["_fd"] = None
    configure_logs("INFO")
    wanted = dict(option.split("=", 1) for option in options)
    database = Database(url, session_name=unique_name())
    if "kill" in wanted:
        kill_at(wanted["kill"], int(wanted.get("nth", "1")))
    if "poison" in wanted:
        compute_pool.compute_chunk = poisoned  # type: ignore[attr-defined,assignment]
    if "slow_s" in wanted:
        delay(float(wanted["slow_s"]))
    if "pages" in wanted:
        fill_disk(database, int(wanted["pages"]))
    if "pause_s" in wanted:
        workflows.FIRST_STORE_PAUSE_S = float(wanted["pause_s"])
    if "unseen_s" in wanted:
        sweeper.UNSEEN_S = float(wanted["unseen_s"])
    runtime = Runtime(database, role=role, processes=int(wanted.get("processes", "1")))
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    runtime.start()
    named.send(runtime.engine.name)
    stopping.wait()
    runtime.stop()


def kill_at(point: str, nth: int) -> None:
    """Have the process killed when it gets to the point for the nth time."""
    owner, name, call = POINTS[point]
    replaced: Callable[..., Any] = getattr(owner, name)
    count = 0

    def killing(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count < nth:
            return replaced(*arguments, **named)
        if call:
            replaced(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, killing)


def delay(seconds: float) -> None:
    """Let every chunk take longer, so that a process can be caught in the middle."""
    compute = compute_pool.ComputePool.compute

    def slow(pool: compute_pool.ComputePool, *arguments: Any) -> ComputedChunk:
        time.sleep(seconds)
        return compute(pool, *arguments)

    setattr(compute_pool.ComputePool, "compute", slow)  # noqa: B010 - mypy takes no methods


def poisoned(
    chunk: int, items: Sequence[ItemSpan], columns: Sequence[str], chunk_points: int
) -> ComputedChunk:
    """In a compute process: chunk 1 of a batch named poison kills it, as running out of memory."""
    if chunk == 1 and b'"seed":666' in items[0].scenario:
        os.kill(os.getpid(), signal.SIGKILL)
    return compute_chunk(chunk, items, columns, chunk_points)


def fill_disk(database: Database, pages: int) -> None:
    """Let SQLite answer "database or disk is full" when its file has grown by so many pages."""
    with closing(sqlite3.connect(str(database.url.database))) as connection:
        limit = connection.execute("PRAGMA page_count").fetchone()[0] + pages

    def bound(connection: sqlite3.Connection, _entry: object) -> None:
        (_, _, path), *_ = connection.execute("PRAGMA database_list").fetchall()
        if path == str(database.url.database):
            connection.execute(f"PRAGMA max_page_count={limit}")

    event.listen(Pool, "connect", bound)
