"""Turns of work that takes seconds: one at a time for each caller, a few at once for all.

What takes a blink has turns of its own, so that it never waits behind what takes seconds: a page
asks for its first picture while the whole of the last one is still computed, and while a service is
open all its callers are one. Nothing is begun for a client that has gone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import anyio.to_thread

from service.errors import OverLimitError

T = TypeVar("T")
Gone = Callable[[], Awaitable[None]]

AT_ONCE = 3
"""Of all callers: more would only share the same cores."""
BRIEF_AT_ONCE = 2
MOST_WAIT_S = 30.0
BATCH_INSTEAD = ", or post them as a batch"


class ClientGone(BaseException):
    """The client has gone before its work was begun; nothing is answered."""


class Turns:
    """Who computes beside the event loop now, and who waits."""

    def __init__(
        self,
        wait_s: float = MOST_WAIT_S,
        *,
        at_once: int = AT_ONCE,
        before: str = "other questions have been computed",
        instead: str = BATCH_INSTEAD,
    ) -> None:
        self._wait_s = wait_s
        self._before = before
        self._instead = instead
        self._all = anyio.CapacityLimiter(at_once)
        self._all_brief = anyio.CapacityLimiter(BRIEF_AT_ONCE)
        self._of_caller: dict[tuple[str, bool], anyio.CapacityLimiter] = {}

    async def take(
        self,
        caller: str,
        work: Callable[[], T],
        *,
        is_brief: bool = False,
        gone: Gone = anyio.sleep_forever,
    ) -> T:
        """Run blocking work in a thread when it is the caller's turn.

        Raises `OverLimitError` (429) when that does not come in time: the caller's own last
        question still runs, or everybody's do; and `ClientGone` when `gone` returns before.
        """
        key = (caller, is_brief)
        own = self._of_caller.setdefault(key, anyio.CapacityLimiter(1))
        everybody = self._all_brief if is_brief else self._all
        try:
            async with self._entered(own, gone), self._entered(everybody, gone):
                return await anyio.to_thread.run_sync(work)
        finally:
            seen = own.statistics()
            if seen.borrowed_tokens == 0 and seen.tasks_waiting == 0:
                self._of_caller.pop(key, None)

    @asynccontextmanager
    async def _entered(self, limiter: anyio.CapacityLimiter, gone: Gone) -> AsyncIterator[None]:
        with anyio.move_on_after(self._wait_s) as waiting:
            await _acquired(limiter, gone)
        if waiting.cancelled_caught:
            raise OverLimitError(
                f"{self._before} for {self._wait_s:g} s; ask again later{self._instead}",
                retry_after_s=max(1, round(min(self._wait_s, MOST_WAIT_S))),
            )
        try:
            yield
        finally:
            limiter.release()


async def _acquired(limiter: anyio.CapacityLimiter, gone: Gone) -> None:
    """Wait for a place; raises `ClientGone`."""
    places: list[bool] = []
    left: list[bool] = []

    async def watch() -> None:
        await gone()
        left.append(True)
        both.cancel_scope.cancel()

    async with anyio.create_task_group() as both:
        both.start_soon(watch)
        await limiter.acquire()
        places.append(True)
        both.cancel_scope.cancel()
    if left:
        if places:
            limiter.release()
        raise ClientGone
