"""Streamed answers end with the key that they were begun with: revoking acts at once there too."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from service.errors import UnauthenticatedError

# Between two looks at the key, while parts are sent; a quiet event stream sends one every 15 s.
LOOK_EVERY_S: Final = 5.0


async def while_admitted(
    parts: Any, may_go_on: Callable[[], Awaitable[bool]], *, every_s: float, is_endless: bool
) -> AsyncIterator[bytes]:
    """The parts, with a look at the key before one that comes `every_s` after the last look.

    A stream of events just ends. Of anything else the connection breaks off, which
    `UnauthenticatedError` does, so that nobody takes it for whole.
    """
    looked_at = time.monotonic()
    async with aclosing(parts):
        async for part in parts:
            if time.monotonic() - looked_at >= every_s:
                if not await may_go_on():
                    if is_endless:
                        return
                    raise UnauthenticatedError("the key was revoked or has expired meanwhile")
                looked_at = time.monotonic()
            yield part
