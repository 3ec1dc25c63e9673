"""The state of the queue for those who ask often: read once a second, never in the way."""

import time
from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.to_thread
import structlog

from service.db.engine import Database, OperationalError
from service.jobs.queue_state import QueueState, read_queue_state

KEEP_S = 1.0
# A database behind a broken network answers after minutes: who asks is told sooner.
PATIENCE_S = 3.0

log = structlog.get_logger()


class QueueWatch:
    """The newest known state, shared by all who ask; one read at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turns = anyio.CapacityLimiter(1)
        self._state: QueueState | None = None
        self._read_at = float("-inf")

    async def current(self) -> QueueState | None:
        """The state, at most a second old; None while the database does not answer."""
        with anyio.move_on_after(PATIENCE_S):
            return await anyio.to_thread.run_sync(
                partial(self._current, self._database),
                # A read that was given up keeps its turn: no thread piles up behind it.
                abandon_on_cancel=True,
                limiter=self._turns,
            )
        return None

    def _current(self, database: Database) -> QueueState | None:
        if time.monotonic() - self._read_at >= KEEP_S:
            self._state = _read(database)
            self._read_at = time.monotonic()
        return self._state


def _read(database: Database) -> QueueState | None:
    try:
        with database.read() as connection:
            return read_queue_state(connection, datetime.now(UTC))
    except OperationalError:
        # The engine's own loop has logged it.
        return None
    except Exception:
        # Whatever it is, the metrics of the process itself must be seen.
        log.exception("queue_state_unread")
        return None
