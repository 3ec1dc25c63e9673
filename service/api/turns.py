"""Turns of work that takes seconds: one at a time for each caller, a few at once for all."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from service.errors import OverLimitError

T = TypeVar("T")

AT_ONCE = 3
"""Of all callers: more would only share the same cores."""
MOST_WAIT_S = 30.0


class Turns:
    """Who computes beside the event loop now, and who waits."""

    def __init__(self, wait_s: float = MOST_WAIT_S) -> None:
        self._wait_s = wait_s
        self._all = anyio.CapacityLimiter(AT_ONCE)
        self._of_caller: dict[str, anyio.CapacityLimiter] = {}

    async def take(self, caller: str, work: Callable[[], T]) -> T:
        """Run blocking work in a thread when it is the caller's turn.

        Raises `OverLimitError` (429) when that does not come in time: the caller's own last
        question still runs, or everybody's do.
        """
        own = self._of_caller.setdefault(caller, anyio.CapacityLimiter(1))
        try:
            async with self._entered(own), self._entered(self._all):
                return await anyio.to_thread.run_sync(work)
        finally:
            seen = own.statistics()
            if seen.borrowed_tokens == 0 and seen.tasks_waiting == 0:
                self._of_caller.pop(caller, None)

    @asynccontextmanager
    async def _entered(self, limiter: anyio.CapacityLimiter) -> AsyncIterator[None]:
        with anyio.move_on_after(self._wait_s) as waiting:
            await limiter.acquire()
        if waiting.cancelled_caught:
            raise OverLimitError(
                f"other questions have been computed for {self._wait_s:g} s; ask again later, or "
                "post them as a batch",
                retry_after_s=max(1, round(self._wait_s)),
            )
        try:
            yield
        finally:
            limiter.release()
