"""Watching running batches: one poller a process for all watchers, one query a tick.

The database is asked, because the batch may be computed, canceled or ended by another process.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from uuid import UUID

import anyio
import structlog

from service.api.answers import encode
from service.api.transactions import in_thread
from service.db.engine import Database, OperationalError
from service.jobs.batch_progress import Change, read_changes

FIRST_TICK_S = 0.05
LAST_TICK_S = 0.5
GROWTH = 1.5
NOT_READ = -1

log = structlog.get_logger()


class Channel:
    """What is known of one batch; its watchers wait here for what is newer."""

    def __init__(self) -> None:
        self.num_watchers = 0
        self.version = NOT_READ
        self.has_ended = False
        self.is_gone = False
        self.body = b""
        self._changed = anyio.Event()

    def publish(self, change: Change) -> None:
        """Keep the newest state and wake all who wait for it."""
        self.has_ended = change.has_ended
        self.is_gone = change.document is None
        if change.document is not None:
            self.version = change.document.version
            self.body = encode(change.document)
        self.wake()

    def wake(self) -> None:
        """Let all who wait look again."""
        self._changed.set()
        self._changed = anyio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Return at the next change, or after so long; whether something may have changed."""
        with anyio.move_on_after(timeout_s):
            await self._changed.wait()
            return True
        return False


class BatchWatch:
    """All channels of this process; lives on the event loop."""

    def __init__(self, database: Database) -> None:
        self.is_stopping = False
        self.num_streams = 0
        self._database = database
        self._channels: dict[UUID, Channel] = {}
        self._poller: asyncio.Task[None] | None = None
        self._tick_s = FIRST_TICK_S
        self._joined = anyio.Event()

    @property
    def num_watchers(self) -> int:
        """Streams and waits that are open."""
        return sum(channel.num_watchers for channel in self._channels.values())

    @contextmanager
    def channel(self, batch_id: UUID) -> Iterator[Channel]:
        """Watch a batch, whose reader was allowed to see it, while the block lasts."""
        channel = self._channels.setdefault(batch_id, Channel())
        channel.num_watchers += 1
        self._tick_s = FIRST_TICK_S
        self._joined.set()
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll())
        try:
            yield channel
        finally:
            channel.num_watchers -= 1
            if channel.num_watchers == 0:
                del self._channels[batch_id]

    async def wait_for_end(self, batch_id: UUID, *, within_s: float) -> None:
        """Return when the batch has ended, after so long, or when the service stops."""
        with self.channel(batch_id) as channel, anyio.move_on_after(within_s):
            while not channel.has_ended and not self.is_stopping:
                await channel.wait(within_s)

    def stop(self) -> None:
        """End all streams and waits: a server that stops would wait for them."""
        self.is_stopping = True
        self._joined.set()
        for channel in self._channels.values():
            channel.wake()

    async def _poll(self) -> None:
        try:
            while self._channels and not self.is_stopping:
                self._joined = anyio.Event()
                await self._tick()
                with anyio.move_on_after(self._tick_s):
                    await self._joined.wait()
                self._tick_s = min(self._tick_s * GROWTH, LAST_TICK_S)
        finally:
            self._poller = None

    async def _tick(self) -> None:
        known = {
            batch_id: channel.version
            for batch_id, channel in self._channels.items()
            if not channel.has_ended
        }
        if not known:
            return
        try:
            changes = await in_thread(partial(_read, self._database, known))
        except OperationalError as error:
            # The streams stay open: their clients would only come back at once.
            log.warning("watch_failed", reason=str(error.orig))
            return
        except Exception:
            # One fault must not leave all watchers without a poller.
            log.exception("watch_failed")
            return
        for change in changes:
            channel = self._channels.get(change.batch_id)
            if channel is not None:
                channel.publish(change)


def _read(database: Database, known: dict[UUID, int]) -> list[Change]:
    with database.read() as connection:
        return list(read_changes(connection, known))
